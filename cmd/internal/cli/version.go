package cli

import "runtime/debug"

// version is set by the build: -ldflags "-X …/cmd/internal/cli.version=1.2.3".
var version = "dev"

// Version tells which build this is.
func Version() (release, commit, goVersion string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, "", ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			commit = setting.Value
		}
	}
	return version, commit, info.GoVersion
}
