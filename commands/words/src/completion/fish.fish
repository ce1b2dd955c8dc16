# Completion for @NAMES@ in fish. Made by 'cenote completions fish'.

function __cenote_complete
    # As the program would get the word; fish quotes what it puts on the line.
    set -l current (string unescape -- (commandline -ct))
    for line in (command cenote complete -- (commandline -opc) $current 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path $current
            case ':directories'
                __fish_complete_directories $current
            case '*'
                echo $line
        end
    end
end

for name in @NAMES@
    complete -c $name -f -a '(__cenote_complete)'
end
