package opaque

import "github.com/wirectl/wirectl/protocol"

// Rules are empty: payloads of no known protocol have none.
var Rules protocol.Rules
