#compdef @NAMES@
# Completion for @NAMES@ in zsh. Made by 'cenote completions zsh'.

_cenote() {
    local line word
    local -a ended open ended_text open_text
    for line in "${(@f)$(command cenote complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        case $word in
            '') ;;
            :files) _files ;;
            :directories) _files -/ ;;
            # The word goes on behind one of these.
            *[=@\#/])
                open+=("$word")
                open_text+=("${line/$'\t'/  }")
                ;;
            *)
                ended+=("$word")
                ended_text+=("${line/$'\t'/  }")
                ;;
        esac
    done
    (( $#ended )) && compadd -l -d ended_text -a ended
    (( $#open )) && compadd -S '' -l -d open_text -a open
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _cenote "$@"
else
    compdef _cenote @NAMES@
fi
