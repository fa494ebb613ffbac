package till

import (
	"os"
	"testing"
)

func TestTotal(t *testing.T) {
	if got := Total([]int{2, 3}); got != 5 {
		t.Errorf("total = %d, want %d", got, 5)
	}
}

func TestReceipt(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(Receipt(n), func(t *testing.T) {
			if n == 1 && Receipt(n) != "1 item" {
				t.Fatalf("receipt = %q\nwant %q", Receipt(n), "1 item")
			}
		})
	}
}

func TestOnline(t *testing.T) {
	if os.Getenv("ONLINE") == "" {
		t.Skip("needs the network")
	}
}

func TestSum(t *testing.T) {
	if Total([]int{0, 1}) != 1 {
		t.Error("sum")
	}
}
