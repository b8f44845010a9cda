package main

import (
	"bytes"
	"os"
	"unicode"
)

// The escape sequences of a terminal (ECMA-48, SGR).
const (
	plainText = "\x1b[0m"
	boldText  = "\x1b[1m"
	red       = "\x1b[31m"
	green     = "\x1b[32m"
	yellow    = "\x1b[33m"
)

// colourful reports whether the output is a terminal whose user wants colours
// (no-color.org).
func (a *app) colourful() bool {
	return isTerminal(a.streams.Out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// colour gives each line of a table the colour that its first word asks for: a
// heading, a sign of a diff, or what came of a check or a node.
func colour(table []byte) []byte {
	var out bytes.Buffer
	for i, line := range bytes.SplitAfter(table, []byte("\n")) {
		text := bytes.TrimRight(line, "\n")
		word, _, _ := bytes.Cut(text, []byte(" "))
		var code string
		switch first := string(word); {
		case i == 0 && heading(first):
			code = boldText
		case first == "+", first == statusOK, first == string(converged):
			code = green
		case first == "-", first == statusFail, first == string(failed), first == "contradiction:":
			code = red
		case first == "~", first == "!", first == statusWarn, first == string(pending), first == string(silent), first == string(disabled):
			code = yellow
		}
		if code == "" || len(text) == 0 {
			out.Write(line)
			continue
		}
		out.WriteString(code)
		out.Write(text)
		out.WriteString(plainText)
		out.Write(line[len(text):])
	}
	return out.Bytes()
}

// heading reports whether a word is written in capitals.
func heading(word string) bool {
	for _, r := range word {
		if !unicode.IsUpper(r) {
			return false
		}
	}
	return len(word) > 2
}
