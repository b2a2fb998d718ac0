package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/run/question"
)

func rlmCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "rlm",
		Category:  speaking,
		Usage:     "answer a question about a text of any size with code that a model writes",
		ArgsUsage: "[QUESTION | show FILE]",
		Description: "The text is not in the prompt. It is a variable, context, in a Python interpreter\n" +
			"that is isolated from this machine. The model sees its size and writes code that\n" +
			"reads it and asks further models. The answer goes to standard output, a line per\n" +
			"turn to standard error. show prints a log as text (docs/rlm.md).\n\n" +
			"   wirectl rlm -m smart --context big.log \"Which error repeats most?\"\n" +
			"   cat *.md | wirectl rlm --sub-model cheap -c - \"Summarize\"\n" +
			"   wirectl rlm show logs/rlm_2026-01-31_12-00-00_0a1b2c3d.jsonl",
		Flags: append(append(sendFlags(), cmdline.SettingFlags(question.Flags)...), joinFlag(),
			&cli.StringFlag{Name: "config", Usage: "read the broker's configuration from the YAML `FILE`; its section rlm sets defaults for these flags"}, quietFlag()),
		Action: inv.does(runRLM),
	}
}

func runRLM(inv *invocation, c *cli.Context) error {
	switch words := inv.Operands; {
	case len(words) == 2 && words[0] == "show":
		return question.Show(inv.bytes(), words[1], inv.Stdin)
	case len(words) > 0 && words[0] == "show":
		return usagef("rlm show takes one FILE")
	case len(words) > 1:
		return usagef("rlm takes one question; got %d words: put quotes around it", len(words))
	}
	if err := checkCapture(c); err != nil {
		return err
	}
	o := hostOptions(inv, c)
	var err error
	if o.Observers.Send, err = senderOf(inv, c); err != nil {
		return err
	}
	if err := joinHub(c, &o); err != nil {
		return err
	}
	inv.Terminable()
	finish, err := question.Ask(c.Context, o, cmdline.Given(c, question.Flags), strings.Join(inv.Operands, ""), question.World{
		Getenv: inv.Getenv, Version: buildVersion(), Stdin: inv.Stdin, Bytes: inv.bytes(), JSON: inv.ndjson(), AtKill: inv.AtKill,
		Say: func(line string) {
			if !c.Bool("quiet") {
				inv.say("rlm", line)
			}
		},
	})
	if is[*question.SchemaError](err) {
		return &faultError{err}
	}
	switch {
	case err == nil && finish.Limited():
		return &childError{statusLimit, nil}
	case err == nil && finish == rlm.Cancelled:
		return &childError{StatusInterrupted, nil}
	}
	return err
}
