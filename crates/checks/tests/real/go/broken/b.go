package broken

import "os"

func Total() int {
	var s string = 3
	return missing(s)
}
