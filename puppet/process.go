package puppet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Process names the process of a run so that a later watcher finds it again.
type Process struct {
	PID int `json:"pid"`
	// Birth is when the process began, in the kernel's ticks since boot: a pid that
	// was given to another process since has another birth. "" = not known.
	Birth string `json:"birth,omitzero"`
}

// processStat is what /proc says of a process.
type processStat struct {
	state  string // Z = ended, not yet waited for
	parent int
	group  int
	birth  string
}

func readStat(pid int) (processStat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, false
	}
	// The name, in parentheses, may hold blanks and parentheses of its own.
	_, rest, ok := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return processStat{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	group, _ := strconv.Atoi(fields[2])
	return processStat{state: fields[0], parent: parent, group: group, birth: fields[19]}, true
}

// identify returns the process with the given pid as it is now.
func identify(pid int) Process {
	stat, _ := readStat(pid)
	return Process{PID: pid, Birth: stat.birth}
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	if p.PID <= 0 || syscall.Kill(p.PID, 0) == syscall.ESRCH {
		return false
	}
	stat, ok := readStat(p.PID)
	if !ok { // no /proc here, or gone just now
		return syscall.Kill(p.PID, 0) != syscall.ESRCH && p.Birth == ""
	}
	return stat.state != "Z" && stat.state != "X" && (p.Birth == "" || p.Birth == stat.birth)
}

// isPuppet tells, by Puppet's own rule, whether the process may hold Puppet's run lock.
func isPuppet(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return true // no /proc here: believe the lock
	}
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(name, []byte("puppet")) || bytes.Contains(name, []byte("ruby")) && bytes.Contains(args, []byte("puppet"))
}

// pids lists the processes of the machine; none where there is no /proc.
func pids() []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// findRun looks for the process that leads the run id: the watcher was stopped
// after it had started the process and before it could write the pid down.
// Commands that the run has started carry the id too; the eldest leads.
func findRun(id string) (Process, bool) {
	want := []byte("\x00BELLPULL_RUN=" + id + "\x00")
	var found Process
	for _, pid := range pids() {
		stat, ok := readStat(pid)
		if !ok || stat.group != pid || found.PID != 0 && !elder(stat.birth, found.Birth) {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(append([]byte{0}, env...), want) {
			found = Process{PID: pid, Birth: stat.birth}
		}
	}
	return found, found.PID != 0
}

func elder(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// family lists the process, everything below it and its group. Puppet gives each
// command that it runs a session of its own, so the group alone is not enough;
// a daemon that the run has started belongs to init by now and is left alone.
func (p Process) family() []Process {
	stats := map[int]processStat{}
	for _, pid := range pids() {
		if stat, ok := readStat(pid); ok {
			stats[pid] = stat
		}
	}
	within := func(pid int) bool {
		if stats[pid].group == p.PID {
			return true
		}
		for range len(stats) {
			if pid == p.PID {
				return true
			}
			stat, ok := stats[pid]
			if !ok || pid <= 1 {
				return false
			}
			pid = stat.parent
		}
		return false
	}
	out := []Process{p}
	for pid, stat := range stats {
		if pid != p.PID && within(pid) {
			out = append(out, Process{PID: pid, Birth: stat.birth})
		}
	}
	return out
}

// signal sends sig to those of the processes that still run.
func signal(processes []Process, sig syscall.Signal) {
	for _, p := range processes {
		if p.Alive() {
			// Gone just now, or another user's: there is nothing to do about either.
			_ = syscall.Kill(p.PID, sig)
		}
	}
}
