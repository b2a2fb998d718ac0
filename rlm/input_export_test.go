package rlm

import "io"

// Measure finds the shape of JSON.
func Measure(s *Shape, r io.Reader) error { return newScanner(r).document(s) }
