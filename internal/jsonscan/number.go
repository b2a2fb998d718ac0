package jsonscan

// numberEnd returns the offset after the number that begins at data[i]. If a digit is missing,
// it returns the complement of the offset where one is expected.
func numberEnd(data []byte, i int) int {
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if i = digitsEnd(data, i); i < 0 {
		return i
	}
	if i < len(data) && data[i] == '.' {
		if i = digitsEnd(data, i+1); i < 0 {
			return i
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		return digitsEnd(data, i)
	}
	return i
}

// digitsEnd returns the offset after the digits that begin at data[i], or the
// complement of i if there are none.
func digitsEnd(data []byte, i int) int {
	start := i
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return ^i
	}
	return i
}

// maxSafeInteger is 2^53-1, the largest integer up to which a double represents every integer
// exactly.
const maxSafeInteger = "9007199254740991"

// IsUnsafeInteger reports whether raw is an integer beyond ±(2^53-1), written without fraction
// and exponent. A reader that stores numbers as doubles may change it.
func IsUnsafeInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) == 0 || digitsEnd(raw, 0) != len(raw) {
		return false
	}
	if len(raw) != len(maxSafeInteger) {
		return len(raw) > len(maxSafeInteger)
	}
	return string(raw) > maxSafeInteger
}
