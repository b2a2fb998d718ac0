package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// ofSession is the session that a message belongs to. Updates and cancels name
// the session rather than the prompt.
var ofSession = Name{ParamsSessionID, protocol.SpaceSession}

// ACP is the Agent Client Protocol.
var ACP = New("acp", Grammar{
	IntegerIDs: true,
	NullIDs:    true,
	Cancelled: []Outcome{
		{Member: ResultStopReason, Is: `"cancelled"`},
		{Member: ErrorCode, Is: "-32800"},
	},
	Methods: map[string]Method{
		"initialize":                 {From: frame.C2U},
		"authenticate":               {From: frame.C2U},
		"logout":                     {From: frame.C2U},
		"session/cancel":             {From: frame.C2U, Does: protocol.Cancel, Ref: ofSession},
		"session/close":              {From: frame.C2U, Ref: ofSession},
		"session/fork":               {From: frame.C2U, Ref: ofSession},
		"session/list":               {From: frame.C2U},
		"session/load":               {From: frame.C2U, Bind: ofSession},
		"session/new":                {From: frame.C2U},
		"session/prompt":             {From: frame.C2U, Bind: ofSession},
		"session/resume":             {From: frame.C2U, Ref: ofSession},
		"session/set_config_option":  {From: frame.C2U, Ref: ofSession},
		"session/set_mode":           {From: frame.C2U, Ref: ofSession},
		"session/set_model":          {From: frame.C2U, Ref: ofSession},
		"session/update":             {From: frame.U2C, Does: protocol.Part, Ref: ofSession, Label: UpdateKind},
		"session/request_permission": {From: frame.U2C, Ref: ofSession},
		"fs/read_text_file":          {From: frame.U2C, Ref: ofSession},
		"fs/write_text_file":         {From: frame.U2C, Ref: ofSession},
		"terminal/create":            {From: frame.U2C, Ref: ofSession},
		"terminal/kill":              {From: frame.U2C, Ref: ofSession},
		"terminal/output":            {From: frame.U2C, Ref: ofSession},
		"terminal/release":           {From: frame.U2C, Ref: ofSession},
		"terminal/wait_for_exit":     {From: frame.U2C, Ref: ofSession},
		"$/cancel_request":           {Does: protocol.Cancel, Ref: Name{ParamsRequestID, protocol.SpaceID}},
	},
})
