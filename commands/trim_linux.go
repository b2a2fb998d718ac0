package commands

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// trimProgram gives back the pages of the program's file that only its start
// needed. The system maps 16 of them at a time, so that after a start nearly the
// whole file counts as ours; the third of it that the work needs comes back by
// itself. Only mappings are let go of in which nothing was changed.
func trimProgram() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var start, end uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 00400000-00f77000 r-xp 00000000 fe:00 1234 /usr/bin/wirectl
		// Anonymous:             0 kB
		switch fields := strings.Fields(lines.Text()); {
		case len(fields) >= 5 && len(fields[1]) == len("r-xp"):
			start, end = 0, 0
			if len(fields) > 5 && strings.HasPrefix(fields[5], "/") && fields[1][1] == '-' {
				from, to, _ := strings.Cut(fields[0], "-")
				start, _ = strconv.ParseUint(from, 16, 64)
				end, _ = strconv.ParseUint(to, 16, 64)
			}
		case start < end && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
