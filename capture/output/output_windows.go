package output

import "io/fs"

const noFollow = 0

// trusted is true: only administrators and developers may make links.
func trusted(fs.FileInfo) bool { return true }
