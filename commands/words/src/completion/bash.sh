# Completion for @NAMES@ in bash. Made by 'cenote completions bash'.

# Files that begin with a text, a line for each; directories end with a slash.
_cenote_files() (
    shopt -u failglob
    shopt -s nullglob
    set +f
    local start=$1 kind=$2 home='' path
    if [[ $start == '~/'* ]]; then
        home=$HOME/
        start=$home${start:2}
    fi
    for path in "$start"*; do
        if [[ -d $path ]]; then
            path+=/
        elif [[ $kind == :directories ]]; then
            continue
        fi
        [[ -z $home ]] || path='~/'${path:${#home}}
        printf '%s\n' "$path"
    done
)

# Adds a candidate, quoted as the word on the line is: names may have blanks, and those of devices
# and files anything. Readline replaces only what follows 'before'.
_cenote_add() {
    local word=${1#"$before"} home=''
    case $quote in
        \') word=${word//\'/\'\\\'\'} ;;
        \")
            word=${word//\\/\\\\}
            word=${word//\"/\\\"}
            word=${word//\$/\\\$}
            word=${word//\`/\\\`}
            ;;
        *)
            if [[ $word == '~/'* ]]; then
                home='~/'
                word=${word:2}
            fi
            if [[ $word == *[!a-zA-Z0-9_./:=@%+,#-]* || $word == '#'* ]]; then
                printf -v word %q "$word"
            fi
            word=$home$word
            ;;
    esac
    COMPREPLY+=("$word")
}

_cenote() {
    local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[[:space:]]/}
    local word='' rest before='' quote='' char index file
    local -a words=()
    for ((index = 0; index < ${#line}; index++)); do
        char=${line:index:1}
        if [[ $char == "$quote" ]]; then
            quote=''
        elif [[ $quote == \' ]]; then
            word+=$char
        elif [[ $char == \\ ]]; then
            index=$((index + 1))
            rest=${line:index:1}
            [[ $quote == '"' && $rest != [\$\`\"\\] ]] && word+=$char
            word+=$rest
        elif [[ -n $quote ]]; then
            word+=$char
        elif [[ $char == [\'\"] ]]; then
            quote=$char
            before=$word
        elif [[ $char == [[:space:]] ]]; then
            [[ -z $word ]] || words+=("$word")
            word=''
            before=''
        else
            word+=$char
            # Readline replaces only what follows the last of these characters.
            [[ $breaks != *"$char"* ]] || before=$word
        fi
    done
    words+=("$word")
    COMPREPLY=()
    local current=$word
    while IFS=$'\t' read -r word rest; do
        case $word in
            :files | :directories)
                while IFS= read -r file; do
                    _cenote_add "$file"
                done < <(_cenote_files "$current" "$word")
                ;;
            *) _cenote_add "$word" ;;
        esac
    done < <(command cenote complete -- "${words[@]}" 2>/dev/null)
    # The word goes on behind one of these.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=@#/] ]]; then
        compopt -o nospace
    fi
}

complete -F _cenote @NAMES@
