package vets

import "fmt"

func Say(s string) {
	fmt.Printf("%d\n", s)
	return
	fmt.Println("never")
}
