// Trivial is the least that a Go program can do, to compare start-up with.
package main

import "fmt"

func main() { fmt.Println("trivial") }
