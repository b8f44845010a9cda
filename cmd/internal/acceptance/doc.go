// Package acceptance holds one test and no code: bellpull's programs, as they are
// built, on a real Puppet Server, real agents and a real NATS server that takes
// the certificates of Puppet's authority. It takes some minutes.
//
//	go test -v ./cmd/internal/acceptance
package acceptance
