package jsonrpc

import (
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
)

// workDone is the token of a progress that the server has created itself.
var workDone = Name{At("params.token"), protocol.SpaceProgress}

// LSP is the language server protocol, version 3.18.
//
// A request that has both a workDoneToken and a partialResultToken is bound by
// the first alone.
var LSP = New("lsp", Grammar{
	IntegerIDs: true,
	Binds: []Name{
		{At("params.workDoneToken"), protocol.SpaceProgress},
		{At("params.partialResultToken"), protocol.SpaceProgress},
	},
	Cancelled: []Outcome{{Member: At("error.code"), Is: "-32800"}},
	Methods: with(map[string]*Method{
		"$/cancelRequest":                {Does: protocol.Cancel, Ref: Name{At("params.id"), protocol.SpaceID}},
		"$/progress":                     {Does: protocol.Part, Ref: workDone},
		"window/workDoneProgress/cancel": {From: frame.C2U, Does: protocol.Cancel, Ref: workDone},
		"window/workDoneProgress/create": {From: frame.U2C, Ref: workDone},
	}, lspClient, lspServer),
})

const lspClient = `
	initialize initialized shutdown exit $/setTrace callHierarchy/incomingCalls callHierarchy/outgoingCalls
	codeAction/resolve codeLens/resolve completionItem/resolve documentLink/resolve inlayHint/resolve
	workspaceSymbol/resolve notebookDocument/didChange notebookDocument/didClose notebookDocument/didOpen
	notebookDocument/didSave textDocument/codeAction textDocument/codeLens textDocument/colorPresentation
	textDocument/completion textDocument/declaration textDocument/definition textDocument/diagnostic
	textDocument/didChange textDocument/didClose textDocument/didOpen textDocument/didSave textDocument/documentColor
	textDocument/documentHighlight textDocument/documentLink textDocument/documentSymbol textDocument/foldingRange
	textDocument/formatting textDocument/hover textDocument/implementation textDocument/inlayHint
	textDocument/inlineCompletion textDocument/inlineValue textDocument/linkedEditingRange textDocument/moniker
	textDocument/onTypeFormatting textDocument/prepareCallHierarchy textDocument/prepareRename
	textDocument/prepareTypeHierarchy textDocument/rangeFormatting textDocument/rangesFormatting textDocument/references
	textDocument/rename textDocument/selectionRange textDocument/semanticTokens/full
	textDocument/semanticTokens/full/delta textDocument/semanticTokens/range textDocument/signatureHelp
	textDocument/typeDefinition textDocument/willSave textDocument/willSaveWaitUntil typeHierarchy/subtypes
	typeHierarchy/supertypes workspace/diagnostic workspace/didChangeConfiguration workspace/didChangeWatchedFiles
	workspace/didChangeWorkspaceFolders workspace/didCreateFiles workspace/didDeleteFiles workspace/didRenameFiles
	workspace/executeCommand workspace/symbol workspace/textDocumentContent workspace/willCreateFiles
	workspace/willDeleteFiles workspace/willRenameFiles
`

const lspServer = `
	$/logTrace client/registerCapability client/unregisterCapability telemetry/event textDocument/publishDiagnostics
	window/logMessage window/showDocument window/showMessage window/showMessageRequest workspace/applyEdit
	workspace/codeLens/refresh workspace/configuration workspace/diagnostic/refresh workspace/foldingRange/refresh
	workspace/inlayHint/refresh workspace/inlineValue/refresh workspace/semanticTokens/refresh
	workspace/textDocumentContent/refresh workspace/workspaceFolders
`
