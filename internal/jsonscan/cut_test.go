package jsonscan

import "testing"

func TestClose(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"params":{"name":"t","arguments":{"pad":"xxx`: `{"id":1,"params":{"name":"t","arguments":{"pad":null}}}`,
		`{"id":12`:                     `{"id":null}`,
		`{"id":12,"na`:                 `{"id":12}`,
		`{"id":"a\"b","list":[1,"x",{`: `{"id":"a\"b","list":[1,"x",{}]}`,
		`{"id": 1 , "x" : tru`:         `{"id": 1 , "x" :null}`,
		`{"a":[1,2],"b":{"c":null},"d`: `{"a":[1,2],"b":{"c":null}}`,
		`{"a":1}`:                      `{"a":1}`,
		`{"a":1} {"b":`:                `{"a":1}`,
		`{"a":"\ud83d","b`:             `{"a":"\ud83d"}`,
		`{`:                            `{}`,
		`{"a"`:                         `{}`,
		`{"a":{"b":1],`:                ``,
		`[{"a":1},`:                    ``,
		`INFO: {"a":1`:                 ``,
		``:                             ``,
	} {
		if got := string(Close([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		for i := range text { // whatever is cut is a text, or nothing
			if got := Close([]byte(text[:i])); got != nil && WellFormed(got) != nil {
				t.Errorf("%s: %s", text[:i], got)
			}
		}
	}
}

func TestLast(t *testing.T) {
	for text, want := range map[string]string{
		"xxx\"}},\"jsonrpc\":\"2.0\",\"id\":1}\n": `"jsonrpc":"2.0","id":1`,
		`"}], "id" : "a-1" , "ok" : true }`:       `"id" : "a-1" , "ok" : true `,
		`xxx\"id\":1"}`:                           ``,
		`xx"id":"a\"b","n":1}`:                    `"n":1`,
		`{"id":7}`:                                `"id":7`,
		`xxx","id":1}}`:                           ``,
		`xxx`:                                     ``,
		`id":1}`:                                  ``,
		`}`:                                       ``,
		``:                                        ``,
	} {
		if got := string(Last([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
