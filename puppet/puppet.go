// Package puppet turns changes of a node's desired state into Puppet runs, and
// tells what those runs are proven to have used.
//
//   - [Agent] is one run and its true result: it starts a command, outlives no
//     run and is outlived by none, and judges by the exit status together with
//     Puppet's own report.
//   - [Loop] decides when a run is owed. It is fed with hints that something may
//     have changed, reads what is wanted from a [Store], compares that with what
//     is applied, and lets a [Runner] run.
//
// What is decided, and why, is two pure functions: [Situation.Decide] says whether
// a run is owed now, [Book.Judge] what a run that has ended has proven.
//
// A run is started for data that differ, never for a notification: wanted and
// applied are sets of (scope, entry, digest). Applied needs proof, and a change
// that a run is not proven to have used stays owed, through restarts of the
// watcher too. A scope that cannot be read is never an emptied scope.
package puppet
