package opaque

import "github.com/wirectl/wirectl/protocol"

// Rules demand nothing of what belongs to no protocol.
var Rules protocol.Rules
