package provider

import "fmt"

// Kind is the name of a kind of backend that speaks something other than OpenAI.
type Kind string

// Refusal is the error for a parameter of OpenAI's that the backend has nothing
// for, though it means something for the answer. Instead says what to do.
func (k Kind) Refusal(param, instead string) *Error {
	return Unanswerable(param, "unsupported_parameter", fmt.Sprintf(
		"Unsupported parameter: '%s' cannot be translated for a provider of the kind %s, which this model goes to. %s, or ask a model of a provider of the kind openai.", param, k, instead))
}
