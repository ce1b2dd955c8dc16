//! `zstream token`: prints the contents of a resume token.

use super::ends::{Outcome, Stop, finish, stop};
use cenote_dsl::resume_token::list_from_text;
use cenote_stream::StreamError;
use cenote_stream::dump::print_token;
use std::io;

/// Runs the command.
pub(super) fn run(words: &[String]) -> Outcome {
    let Some(text) = words.first() else {
        return Err(Stop::Usage("Need to pass the resume token".to_owned()));
    };
    let list = list_from_text(text)
        .map_err(|problem| Stop::Failed(format!("Unable to parse resume token: {problem}")))?;
    let mut out = io::stdout().lock();
    let printed = print_token(&list, &mut out);
    printed.map_err(|source| stop(&StreamError::Write { offset: 0, source }))?;
    finish(out)
}
