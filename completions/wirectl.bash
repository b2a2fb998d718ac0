# bash completion for wirectl. To have it in every shell:
#
#   wirectl completion bash > ~/.local/share/bash-completion/completions/wirectl

_wirectl() {
	local line=${COMP_LINE:0:COMP_POINT} word=${COMP_WORDS[COMP_CWORD]} cur='' words quote candidate
	_wirectl_words "$word"
	word=${words[0]-}
	_wirectl_words "$line"
	cur=${words[${#words[@]} - 1]}
	# The shell breaks words at ':' and '=' and replaces only what follows them.
	if [[ $word == [:=] ]]; then word=''; fi
	local kept=${cur%"$word"}

	COMPREPLY=()
	while IFS= read -r candidate; do
		case $candidate in
		:files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word") ;;
		:dirs) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word") ;;
		:command\ *) _wirectl_command "${candidate#:command }" "$word"; return ;;
		*)
			candidate=${candidate%%$'\t'*}
			if [[ $candidate == *[:=/] ]]; then compopt -o nospace 2>/dev/null; fi
			candidate=${candidate#"$kept"}
			if [[ -z $quote && $candidate == *[[:space:]]* ]]; then printf -v candidate %q "$candidate"; fi
			COMPREPLY+=("$candidate")
			;;
		esac
	done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}

# _wirectl_words LINE sets words to those of a line, without their quotes, and
# quote to the one that is open at its end.
_wirectl_words() {
	local i c word='' begun=''
	words=() quote=''
	for ((i = 0; i < ${#1}; i++)); do
		c=${1:i:1}
		case $quote$c in
		[[:space:]])
			if [[ $begun ]]; then words+=("$word"); fi
			word='' begun=''
			;;
		[\\\'\"]) quote=$c begun=1 ;;
		\'\' | \"\") quote='' ;;
		\\*) word+=$c quote='' ;;
		*) word+=$c begun=1 ;;
		esac
	done
	words+=("$word")
}

# _wirectl_command INDEX WORD completes the command line of another program,
# which begins at a word of ours.
_wirectl_command() {
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$2")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
	fi
}

complete -F _wirectl wirectl
