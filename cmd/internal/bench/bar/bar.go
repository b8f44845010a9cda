// Package bar is what the benches share: figures held against bars, and what
// /proc says of a process.
package bar

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Print prints a line that ends in met or not met: have is to be at most limit.
func Print(text string, have, limit float64, unit string) {
	verdict := "met"
	if have > limit {
		verdict = "not met"
	}
	fmt.Printf("bar: %s: %.3g%s of at most %.3g%s: %s\n", text, have, unit, limit, unit, verdict)
}

// Unmeasured prints the line of a bar that could not be measured.
func Unmeasured(text string, err error) {
	fmt.Printf("bar: %s: not measured, %v: not met\n", text, err)
}

// Median is the middle of the durations.
func Median(d []time.Duration) time.Duration { return Quantile(d, 0.5) }

// Quantile is the duration below which the part q of them lies.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	at := q * float64(len(d)-1)
	low := d[int(at)]
	high := d[min(int(at)+1, len(d)-1)]
	return low + time.Duration((at-float64(int(at)))*float64(high-low))
}

// Ms writes a duration in milliseconds.
func Ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// Resident is a process's resident size in KiB.
func Resident(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	return strconv.Atoi(strings.Fields(rest + " 0")[0])
}

// tick is the kernel's unit of CPU time in /proc; 100 in a second on all of Linux.
const tick = 10 * time.Millisecond

// CPU is the CPU time that a process has used, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields))
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, err
}
