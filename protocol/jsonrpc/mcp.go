package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// MCP is the Model Context Protocol, in its versions up to 2025-11-25 and with
// the discovery that comes after them. Requests flow both ways.
var MCP = New("mcp", Grammar{
	IntegerIDs:   true,
	ObjectParams: true,
	Binds:        []Name{{MetaProgressToken, protocol.SpaceProgress}},
	Methods: map[string]Method{
		"initialize":                           {From: frame.C2U},
		"server/discover":                      {From: frame.C2U},
		"ping":                                 {},
		"completion/complete":                  {From: frame.C2U},
		"logging/setLevel":                     {From: frame.C2U},
		"prompts/get":                          {From: frame.C2U, Label: ParamsName},
		"prompts/list":                         {From: frame.C2U},
		"resources/list":                       {From: frame.C2U},
		"resources/read":                       {From: frame.C2U, Label: ParamsURI},
		"resources/subscribe":                  {From: frame.C2U, Label: ParamsURI},
		"resources/templates/list":             {From: frame.C2U},
		"resources/unsubscribe":                {From: frame.C2U, Label: ParamsURI},
		"subscriptions/listen":                 {From: frame.C2U},
		"tools/call":                           {From: frame.C2U, Label: ParamsName},
		"tools/list":                           {From: frame.C2U},
		"tasks/cancel":                         {},
		"tasks/get":                            {},
		"tasks/list":                           {},
		"tasks/result":                         {},
		"elicitation/create":                   {From: frame.U2C},
		"roots/list":                           {From: frame.U2C},
		"sampling/createMessage":               {From: frame.U2C},
		"notifications/cancelled":              {Does: protocol.Cancel, Ref: Name{ParamsRequestID, protocol.SpaceID}},
		"notifications/progress":               {Does: protocol.Part, Ref: Name{ParamsProgressToken, protocol.SpaceProgress}},
		"notifications/initialized":            {From: frame.C2U},
		"notifications/roots/list_changed":     {From: frame.C2U},
		"notifications/tasks/status":           {},
		"notifications/elicitation/complete":   {From: frame.U2C},
		"notifications/message":                {From: frame.U2C},
		"notifications/prompts/list_changed":   {From: frame.U2C},
		"notifications/resources/list_changed": {From: frame.U2C},
		"notifications/resources/updated":      {From: frame.U2C, Label: ParamsURI},
		"notifications/tools/list_changed":     {From: frame.U2C},
	},
})
