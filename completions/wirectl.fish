# fish completion for wirectl. To have it in every shell:
#
#   wirectl completion fish > ~/.config/fish/completions/wirectl.fish

function __wirectl_complete
    set -l word (commandline -ct)
    set -l plain (string unescape -- $word); or set plain (string trim --left --chars \'\" -- $word)
    set -l words (commandline -opc) "$plain"
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':dirs'
                __fish_complete_directories (commandline -ct)
            case ':command *'
                set -l skip (string replace ':command ' '' -- $line)
                complete -C (string join ' ' -- (string escape -- $words[(math $skip + 1)..-2]) $words[-1])
            case '*'
                echo $line
        end
    end
end

complete -c wirectl -f -a '(__wirectl_complete)'
