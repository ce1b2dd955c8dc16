//! Answers in XML: elements and their text.
//!
//! Of XML this knows what answers of S3 and of Amazon's tokens are made of: elements, escapes,
//! comments, CDATA and the line `<?xml …?>`. Attributes are skipped, and so are the prefixes of
//! names. Document types are refused, so nothing can define escapes of its own.
//!
//! The reader does not recurse, and holds nothing but the elements that are open.

/// Elements inside of one another, at most. Answers have up to four.
const DEPTH_MAX: usize = 16;

/// Calls `found` at the end of each element, with the names of all elements that are open, its own
/// last, and with the text that is directly in it.
///
/// # Errors
/// What is no XML, or what `found` says. The text is not repeated: a server may send much of it.
pub fn read(
    text: &str,
    mut found: impl FnMut(&[&str], &str) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let (mut names, mut texts): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut has_root = false;
    while let Some((before, mark)) = rest.split_once('<') {
        add(&mut texts, &unescaped(before)?)?;
        if let Some(comment) = mark.strip_prefix("!--") {
            rest = behind(comment, "-->")?.1;
        } else if let Some(data) = mark.strip_prefix("![CDATA[") {
            let (data, next) = behind(data, "]]>")?;
            add(&mut texts, data)?;
            rest = next;
        } else if let Some(instruction) = mark.strip_prefix('?') {
            rest = behind(instruction, "?>")?.1;
        } else {
            let (tag, next) = tag(mark)?;
            rest = next;
            let closed = tag.strip_prefix('/');
            if closed.is_none() {
                if names.len() == DEPTH_MAX || (names.is_empty() && has_root) {
                    return Err("it has too many elements".into());
                }
                has_root = true;
                names.push(name(tag)?);
                texts.push(String::new());
            }
            if closed.is_some() || tag.ends_with('/') {
                let is_right =
                    closed.is_none_or(|closed| name(closed).ok().as_ref() == names.last());
                let text = texts.pop().filter(|_| is_right);
                let text = text.ok_or("an element's end is another's")?;
                found(&names, &text)?;
                names.pop();
            }
        }
    }
    add(&mut texts, rest)?;
    match has_root && names.is_empty() {
        true => Ok(()),
        false => Err("it has no end".into()),
    }
}

fn add(texts: &mut [String], text: &str) -> Result<(), String> {
    match texts.last_mut() {
        Some(open) => open.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err("it is no XML".into()),
    }
    Ok(())
}

fn behind<'a>(text: &'a str, end: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(end).ok_or_else(|| "it has no end".into())
}

/// What stands before the next `>` that is in no quotes, and what behind it.
fn tag(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return Ok((&text[..at], &text[at + 1..])),
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    Err("it has no end".into())
}

/// The name of a tag, without its prefix.
fn name(tag: &str) -> Result<&str, String> {
    let end = |character: char| character.is_ascii_whitespace() || character == '/';
    let whole = tag.split(end).next().unwrap_or_default();
    let name = whole.rsplit(':').next().unwrap_or_default();
    let is_name = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok(name),
        false => Err("what is between '<' and '>' is no element".into()),
    }
}

/// Text without its escapes.
///
/// # Errors
/// If there is an escape in it that means nothing.
pub fn unescaped(text: &str) -> Result<String, String> {
    let mut pieces = text.split('&');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (escape, rest) = behind(piece, ";")?;
        let number = match escape.strip_prefix("#x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => escape
                .strip_prefix('#')
                .and_then(|digits| digits.parse().ok()),
        };
        let character = match escape {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        };
        plain.push(character.ok_or("an escape means nothing")?);
        plain.push_str(rest);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        read(text, |names, text| {
            all.push(format!("{}={text}", names.join("/")));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn elements_have_names_and_text() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<a:R x=\"a>b\"><!-- <K> --><K>1 &lt;&#x41;\
                    &#66;&amp;<![CDATA[<&]]></K><E/><F y='/'/>\n<K>2</K ></a:R>\n";
        let expected = ["R/K=1 <AB&<&", "R/E=", "R/F=", "R/K=2", "R=\n"];
        assert_eq!(elements(text).expect("XML"), expected);
    }

    #[test]
    fn what_is_no_xml_is_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        for text in [
            "",
            " ",
            "text",
            "<a>",
            "<a",
            "<a></b>",
            "</a>",
            "<a/>x",
            "<a/><b/>",
            "<a>&b;</a>",
            "<a>&#xd800;</a>",
            "<a>&amp</a>",
            "<!DOCTYPE a><a/>",
            "<a><!-- </a>",
            "<a><![CDATA[",
            "<a x=\"></a>",
            "<?xml",
            "<>",
            "< a/>",
            &deep,
        ] {
            assert!(elements(text).is_err(), "{text}");
        }
        let refused = read("<a/>", |_, _| Err("so be it".into()));
        assert_eq!(refused, Err("so be it".into()));
    }
}
