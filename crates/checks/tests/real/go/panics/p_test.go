package panics

import (
	"testing"

	"example.org/till"
)

func TestChange(t *testing.T) {
	if till.Change(1, 2) != 0 {
		t.Error("never")
	}
}
