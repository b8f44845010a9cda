package main

import (
	"context"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// store reads what the watcher wants to know: its scopes, and the limit of
// simultaneous runs with them.
type store struct{ *natskv.Bucket }

func (s store) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	return s.ReadNode(ctx, scopes)
}
