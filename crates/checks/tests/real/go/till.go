package till

import "fmt"

func Total(prices []int) int {
	sum := 0
	for _, p := range prices[1:] {
		sum += p
	}
	return sum
}

func Change(paid, due int) int {
	if paid < due {
		panic("no change given")
	}
	return paid - due
}

func Receipt(n int) string {
	return fmt.Sprintf("%d items", n)
}
