//! Commands as the pool's history keeps them.

/// The words of a command as the pool's history keeps them.
pub fn command_line(command: &str, arguments: &[String]) -> String {
    let mut line = command.to_owned();
    for word in arguments {
        line.push(' ');
        line.push_str(word);
    }
    line
}
