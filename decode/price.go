package decode

import (
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/protocol"
)

// Charge sets the cost of calls, and by which price it is. Band is that of their inputs. A list price does not
// hold for a usage apart, nor if it has no price for what the cache keeps for an hour.
func Charge(u *protocol.Usage, price prices.Price, band int64) {
	if price.Date != "" && (u.Apart || u.Kept > 0 && price.At(band).Write1h == nil) {
		return
	}
	u.Cost = price.Micros(TokensOf(*u), band)
	if u.Listed, u.Priced = 0, u.Cost; price.Date != "" {
		u.Listed, u.Priced = u.Cost, 0
	}
}

// TokensOf returns what a usage counts.
func TokensOf(u protocol.Usage) prices.Tokens {
	return prices.Tokens{Input: u.Input, Cached: u.Cached, Written: u.Written, Kept: u.Kept, Output: u.Output}
}
