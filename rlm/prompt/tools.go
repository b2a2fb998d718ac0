package prompt

import "strings"

// Tools returns the system prompt of tools mode.
func Tools(Facts) string {
	return "You answer what the user asks. Call tools where they help: for facts that you do not know, for work that has to be exact, and for " +
		"what only they can do. Calls that do not depend on each other may be made at once. The result of a call is JSON; a call that failed gives " +
		"an object with \"error\": read it, and call again in another way if that can help. When you know the answer, give it without calling a tool. " +
		"Answer exactly what was asked, and add nothing that was not asked for."
}

// LastTools is the message after the last turn of tools mode.
const LastTools = "There are no turns left, and no tool is called any more. Answer now, with what you know. If you are not sure, give the best answer that you have."

// CompactTools is [Compact] for tools mode.
const CompactTools = "This conversation is getting too long. Write a summary that will replace it, except for the first messages. " +
	"Do not call tools or answer now. Keep all that you need to go on:\n" +
	"- all results so far, with exact numbers, names and quotations;\n" +
	"- what has failed and should not be tried again;\n" +
	"- what is left to do."

// ContinueTools is [Continue] for tools mode.
const ContinueTools = "Go on from your summary. Do not repeat what is done."

// Schema returns the request to answer with JSON that matches a schema.
func Schema(document string) string {
	return "The final answer has to be JSON that matches this JSON Schema, and nothing else:\n\n" + document
}

// Repair returns the message after an answer that does not match the schema.
func Repair(fault string) string {
	return "That answer is not accepted: " + cut(fault, partChars) + "\n\nGive the whole answer again, corrected: JSON that matches the schema, and nothing else."
}

// RepairCode is [Repair] for an answer of code or of a marker, after the outputs of the blocks
// of the same response.
func RepairCode(fault string, outputs []string) string {
	text := Repair(fault) + " Give it as before, by FINAL or FINAL_VAR. In code, make its text with json.dumps."
	if len(outputs) > 0 {
		text = strings.Join(outputs, "\n\n") + "\n\n" + text
	}
	return text
}
