# Completion for @NAMES@ in bash. Made by 'cenote completions bash'.

_cenote() {
    local line=${COMP_LINE:0:COMP_POINT} word rest before='' IFS=$' \t\n'
    local -a words
    read -r -a words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    local current=${words[${#words[@]} - 1]}
    # Readline replaces only what follows the last of these characters.
    local breaks=${COMP_WORDBREAKS//[[:space:]]/} index
    for ((index = ${#current} - 1; index >= 0; index--)); do
        if [[ $breaks == *"${current:index:1}"* ]]; then
            before=${current:0:index + 1}
            break
        fi
    done
    COMPREPLY=()
    while IFS=$'\t' read -r word rest; do
        case $word in
            :files)
                compopt -o filenames
                while IFS= read -r word; do COMPREPLY+=("$word"); done \
                    < <(compgen -f -- "${current#"$before"}")
                ;;
            :directories)
                compopt -o filenames
                while IFS= read -r word; do COMPREPLY+=("$word"); done \
                    < <(compgen -d -- "${current#"$before"}")
                ;;
            *) COMPREPLY+=("${word#"$before"}") ;;
        esac
    done < <(command cenote complete -- "${words[@]}" 2>/dev/null)
    # The word goes on behind one of these.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=@#/] ]]; then
        compopt -o nospace
    fi
}

complete -F _cenote @NAMES@
