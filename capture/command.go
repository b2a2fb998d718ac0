package capture

import (
	"regexp"
	"strings"
	"sync"
)

// MaskCommand returns a command without known secrets.
func MaskCommand(command string) string {
	command = flagAndValue.ReplaceAllStringFunc(command, func(pair string) string {
		if flag, value, _ := strings.Cut(pair, " "); HidesValue(flag, value) {
			return flag + " " + Redacted
		}
		return pair
	})
	command = userInFlag.ReplaceAllString(command, "$1"+Redacted)
	return maskText(command)
}

// mask takes known secrets out of texts, one at a time.
var (
	mask    = sync.OnceValue(func() func(string) string { return Secrets().Text() })
	masking sync.Mutex
)

func maskText(text string) string {
	masking.Lock()
	defer masking.Unlock()
	return mask()(text)
}

var (
	// flagAndValue matches a flag and the next word.
	flagAndValue = regexp.MustCompile(`--?[A-Za-z][\w-]* +("[^"]*"|'[^']*'|[^\s-]\S*)`)
	// userFlag matches the flags of curl, and of programs like it, whose value is a name with a password, and
	// userInFlag one with its value.
	userFlag   = regexp.MustCompile(`^(-[A-Za-z]*[uU]|--(proxy-)?user)$`)
	userInFlag = regexp.MustCompile(`((?:^|\s)(?:-[uU]|--(?:proxy-)?user=)["']?[^\s:"'=/]+:)[^\s"']+`)
)

// HidesValue reports whether the word after a flag is a secret.
func HidesValue(flag, value string) bool {
	name := strings.TrimLeft(flag, "-")
	return name != flag && !strings.HasPrefix(value, "-") &&
		(userFlag.MatchString(flag) && strings.Contains(value, ":") && !strings.Contains(value, "://") || maskText(name+"="+value) == name+"="+Redacted)
}
