package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellpull-fact": main, "natsd": natsd})
}

func TestScripts(t *testing.T) {
	scripts, err := os.ReadDir("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		t.Run(script.Name(), func(t *testing.T) {
			l := &lab{t: t}
			testscript.Run(t, testscript.Params{
				Files: []string{"testdata/script/" + script.Name()}, Setup: l.setup, Cmds: l.commands(),
				RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
			})
		})
	}
}
