//! Commands as they are recorded in the pool's history.

/// The words of a command as they are recorded in the pool's history.
pub fn command_line(command: &str, arguments: &[String]) -> String {
    let mut line = command.to_owned();
    for word in arguments {
        line.push(' ');
        line.push_str(word);
    }
    line
}
