package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
	"golang.org/x/term"
)

// print writes a command's data: what data encodes to, or the rows for people
// that table makes.
func (a *app) print(data any, table func(row func(cells ...any))) error {
	text, err := a.render(data, table)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if _, err := a.streams.Out.Write(text); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func (a *app) render(data any, table func(row func(cells ...any))) ([]byte, error) {
	onTerminal := isTerminal(a.streams.Out)
	switch {
	case a.output == "yaml":
		return toYAML(data)
	case a.forPeople():
		text, err := toTable(table)
		if err == nil && a.colourful() {
			text = colour(text)
		}
		return text, err
	}
	options := []json.Options{json.Deterministic(true)}
	if onTerminal {
		options = append(options, jsontext.WithIndent("  "))
	}
	text, err := json.Marshal(data, options...)
	return append(text, '\n'), err
}

// forPeople reports whether the output is a table.
func (a *app) forPeople() bool {
	return a.output == "table" || a.output == "" && isTerminal(a.streams.Out)
}

func toTable(table func(row func(cells ...any))) ([]byte, error) {
	var rows [][]string
	columns := 0
	table(func(cells ...any) {
		var row []string
		for _, cell := range cells {
			row = append(row, printable(fmt.Sprint(cell)))
		}
		rows, columns = append(rows, row), max(columns, len(row))
	})
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	for _, row := range rows {
		if len(row) == 1 { // a sentence, not a row: it has no part in the alignment
			if err := w.Flush(); err != nil {
				return nil, err
			}
			fmt.Fprintln(&b, row[0])
			continue
		}
		// A row with fewer cells would end the alignment of those around it.
		for len(row) < columns {
			row = append(row, "")
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return regexp.MustCompile(`(?m) +$`).ReplaceAll(b.Bytes(), nil), nil
}

// printable keeps what a stranger wrote from steering the terminal.
func printable(s string) string {
	for _, r := range s {
		if !strconv.IsGraphic(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// toYAML writes data as YAML. It goes by way of JSON, so that both say the same
// and numbers keep their digits.
func toYAML(data any) ([]byte, error) {
	text, err := json.Marshal(data, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	node, err := yamlNode(jsontext.NewDecoder(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	return yaml.Dump(node, yaml.WithV3Defaults())
}

// yamlNode reads the next JSON value.
func yamlNode(d *jsontext.Decoder) (*yaml.Node, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}
	switch token.Kind() {
	case '"':
		node.Tag = "!!str"
	case '0':
		node.Tag = "!!int"
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	case 't', 'f':
		node.Tag = "!!bool"
	case 'n':
		node.Tag = "!!null"
	case '{', '[':
		end := jsontext.Kind(']')
		node = &yaml.Node{Kind: yaml.SequenceNode}
		if token.Kind() == '{' {
			node, end = &yaml.Node{Kind: yaml.MappingNode}, '}'
		}
		for d.PeekKind() != end {
			item, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, item)
		}
		_, err = d.ReadToken()
	}
	return node, err
}
