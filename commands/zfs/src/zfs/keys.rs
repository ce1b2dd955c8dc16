//! `zfs load-key` and `zfs unload-key`.

use cenote_control::model::{
    ControlError, Dataset, Depth, KindSet, PropertySelection, Request, Source,
};

use super::material;
use super::select::{self, Selection, resolve};
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::cannot_open;

/// How often to ask again after a wrong key.
const ATTEMPTS: u32 = 3;

fn error_line(verb: &str, text: &str) -> String {
    format!("Key {verb} error: {text}")
}

/// The datasets of a command, with the state of their keys.
fn encrypted(roots: &[String], recursive: bool, context: &mut Context) -> Result<Vec<Dataset>, u8> {
    let names = [
        "encryption",
        "encryptionroot",
        "keyformat",
        "keylocation",
        "keystatus",
    ];
    let selection = Selection {
        operands: roots.to_vec(),
        depth: Some(if recursive { Depth::All } else { Depth::Roots }),
        kinds: KindSet::HEADS,
        operand_kinds: KindSet::NONE,
        paths: false,
        properties: PropertySelection::Named(names.map(str::to_owned).to_vec()),
        keys: Vec::new(),
    };
    let selected = select::select(&selection, context);
    if selected.failed {
        Err(1)
    } else {
        Ok(selected.rows)
    }
}

fn text<'a>(row: &'a Dataset, name: &str) -> Option<&'a str> {
    row.property(name)
        .and_then(|property| property.value.text())
}

fn is_root(row: &Dataset) -> bool {
    text(row, "encryptionroot") == Some(&row.name)
}

fn is_loaded(row: &Dataset) -> bool {
    text(row, "keystatus") == Some("available")
}

/// Reads and loads the key of one encryption root.
fn load_one(
    row: &Dataset,
    location: Option<&str>,
    dry_run: bool,
    context: &mut Context,
) -> Result<(), String> {
    let root = match text(row, "encryptionroot") {
        None | Some("-") => {
            let dataset = row.name.clone();
            return Err(ControlError::NotEncrypted { dataset }.to_string());
        }
        Some(root) => root,
    };
    if root != row.name {
        let error = ControlError::NotEncryptionRoot {
            dataset: row.name.clone(),
            root: root.to_owned(),
        };
        return Err(error.to_string());
    }
    if is_loaded(row) && !dry_run {
        let dataset = row.name.clone();
        return Err(ControlError::KeyLoaded { dataset }.to_string());
    }
    let location = location
        .or_else(|| text(row, "keylocation"))
        .unwrap_or("prompt");
    let format = text(row, "keyformat").unwrap_or("passphrase");
    for attempt in 1..=ATTEMPTS {
        let key = material::read(&row.name, format, location)?;
        let request = Request::LoadKey {
            dataset: row.name.clone(),
            key,
            dry_run,
        };
        let again = attempt < ATTEMPTS && material::can_ask_again(location);
        match context.ask_noted(request) {
            Ok(_) => return Ok(()),
            Err(error @ ControlError::KeyIncorrect { .. }) if again => {
                context.complain(&error_line("load", &error.to_string()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// The encryption of a dataset.
pub struct Facts {
    /// Its data is encrypted.
    pub is_encrypted: bool,
    /// Format and location of its own key, as words, if it is an encryption root.
    pub key: Option<(String, String)>,
}

/// The encryption of a dataset.
pub fn facts(dataset: &str, context: &mut Context) -> Result<Facts, Stop> {
    let rows = encrypted(&[dataset.to_owned()], false, context).map_err(Stop::Code)?;
    let row = rows.first();
    let of = |name: &str| {
        let word = row.and_then(|row| text(row, name));
        word.unwrap_or("none").to_owned()
    };
    let is_root = row.is_some_and(is_root);
    Ok(Facts {
        is_encrypted: !matches!(of("encryption").as_str(), "off" | "none" | "-"),
        key: is_root.then(|| (of("keyformat"), of("keylocation"))),
    })
}

/// `zfs load-key [-rn] [-L LOCATION] -a | DATASET`
pub fn load(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let (dry_run, location) = (parsed.has("n"), parsed.last("L"));
    let many = is_for_many(&parsed);
    if many && location.is_some_and(|location| location != "prompt") {
        return usage("alternate keylocation may only be 'prompt' with -r or -a");
    }
    let roots = roots(&parsed, context)?;
    if many {
        let code = load_many(&roots, location, dry_run, context);
        return Ok(if code == 0 { 0 } else { 255 });
    }
    let rows = encrypted(&roots, false, context).map_err(Stop::Code)?;
    for row in &rows {
        if let Err(message) = load_one(row, location, dry_run, context) {
            context.complain(&error_line("load", &message));
            return Err(Stop::Code(255));
        }
    }
    if dry_run {
        context.line(&format!("1 / 1 key(s) successfully {}", verb(dry_run)));
    }
    Ok(0)
}

/// Whether a command is for all keys, or those of a dataset and all below it. `-a` includes `-r`.
fn is_for_many(parsed: &Parsed) -> bool {
    let (all, recursive) = (parsed.has("a"), parsed.has("r"));
    all || recursive
}

fn roots(parsed: &Parsed, context: &mut Context) -> Result<Vec<String>, Stop> {
    if parsed.has("a") {
        if !parsed.operands.is_empty() {
            return usage("Cannot specify dataset with -a option");
        }
        return Ok(Vec::new());
    }
    match parsed.operands.as_slice() {
        [] => usage("Missing dataset argument or -a option"),
        [name] => match resolve(name, KindSet::HEADS, false, context) {
            Ok(name) => Ok(vec![name]),
            Err(message) => failed(message),
        },
        _ => usage("Too many arguments"),
    }
}

fn verb(dry_run: bool) -> &'static str {
    if dry_run { "verified" } else { "loaded" }
}

fn load_many(roots: &[String], location: Option<&str>, dry_run: bool, context: &mut Context) -> u8 {
    let rows = match encrypted(roots, true, context) {
        Ok(rows) => rows,
        Err(code) => return code,
    };
    let wanted = rows
        .iter()
        .filter(|row| is_root(row) && (dry_run || !is_loaded(row)));
    let wanted: Vec<&Dataset> = wanted.collect();
    let mut done = 0;
    for row in &wanted {
        match load_one(row, location, dry_run, context) {
            Ok(()) => done += 1,
            Err(message) => context.complain(&error_line("load", &message)),
        }
    }
    if !wanted.is_empty() {
        let (all, verb) = (wanted.len(), verb(dry_run));
        context.line(&format!("{done} / {all} key(s) successfully {verb}"));
    }
    u8::from(done != wanted.len())
}

/// Loads all keys below `roots` (of all pools if there are none).
pub fn load_all(roots: &[String], context: &mut Context) -> u8 {
    load_many(roots, None, false, context)
}

/// Loads all keys of a pool.
pub fn load_below(pool: &str, context: &mut Context) -> u8 {
    load_many(&[pool.to_owned()], None, false, context)
}

/// The file on this machine that has the key of an encryption root.
///
/// If the location came with a stream, the sender chose which file or address to read. It is used
/// only when a user loads the key explicitly, never automatically.
fn own_file(row: &Dataset) -> Option<&str> {
    let location = row.property("keylocation")?;
    let is_own = location.source != Source::Received;
    let path = location.value.text()?.strip_prefix("file://");
    path.filter(|_| is_own)
}

/// Loads all keys of a pool that are in files. Returns the encryption roots whose keys are not in a
/// file or whose location came with a stream, and the exit code.
pub fn load_from_files(pool: &str, context: &mut Context) -> (Vec<String>, u8) {
    let rows = match encrypted(&[pool.to_owned()], true, context) {
        Ok(rows) => rows,
        Err(code) => return (Vec::new(), code),
    };
    let (mut left, mut code) = (Vec::new(), 0);
    for row in rows.iter().filter(|row| is_root(row) && !is_loaded(row)) {
        let is_in_file = own_file(row).is_some();
        match is_in_file.then(|| load_one(row, None, false, context)) {
            Some(Ok(())) => {}
            Some(Err(message)) => {
                context.complain(&error_line("load", &format!("{}: {message}", row.name)));
                code = 1;
            }
            None => left.push(row.name.clone()),
        }
    }
    (left, code)
}

/// The encryption roots whose loaded keys are in no existing file: these keys cannot be loaded
/// again automatically.
pub fn not_in_files(context: &mut Context) -> Result<Vec<String>, u8> {
    let rows = encrypted(&[], true, context)?;
    let is_in_file = |row: &Dataset| {
        // The key's file may be on a removed USB stick.
        own_file(row).is_some_and(|path| std::path::Path::new(path).exists())
    };
    let rows = rows
        .iter()
        .filter(|row| is_root(row) && is_loaded(row) && !is_in_file(row));
    Ok(rows.map(|row| row.name.clone()).collect())
}

/// Loads the key of `dataset`, unless it is loaded or not needed.
pub fn load_for(dataset: &str, context: &mut Context) -> u8 {
    let rows = match encrypted(&[dataset.to_owned()], false, context) {
        Ok(rows) => rows,
        Err(code) => return code,
    };
    let needed = rows.first().filter(|row| !is_loaded(row));
    let root = needed
        .and_then(|row| text(row, "encryptionroot"))
        .filter(|root| *root != "-");
    let Some(root) = root.map(str::to_owned) else {
        return 0;
    };
    let rows = match encrypted(&[root], false, context) {
        Ok(rows) => rows,
        Err(code) => return code,
    };
    for row in &rows {
        if let Err(message) = load_one(row, None, false, context) {
            context.complain(&error_line("load", &message));
            return 255;
        }
    }
    0
}

/// Reads the key of an encryption root from `location` (`stdin` is `prompt` without a terminal).
pub fn read_key(
    dataset: &str,
    location: &str,
    context: &mut Context,
) -> Result<cenote_control::model::Secret, String> {
    let rows = encrypted(&[dataset.to_owned()], false, context);
    let rows = rows.map_err(|_| format!("cannot load the key of '{dataset}'"))?;
    let row = rows.first();
    let format = row
        .and_then(|row| text(row, "keyformat"))
        .unwrap_or("passphrase");
    let location = if location == "stdin" {
        "prompt"
    } else {
        location
    };
    material::read(dataset, format, location)
}

/// `zfs unload-key [-r] -a | DATASET`
pub fn unload(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let roots = roots(&parsed, context)?;
    if !is_for_many(&parsed) {
        return unload_one(&roots, context);
    }
    let rows = encrypted(&roots, true, context).map_err(Stop::Code)?;
    let wanted: Vec<&Dataset> = rows.iter().filter(|r| is_root(r) && is_loaded(r)).collect();
    let mut done = 0;
    // Children first: a root below another one may use its datasets.
    for row in wanted.iter().rev() {
        let request = Request::UnloadKey {
            dataset: row.name.clone(),
        };
        match context.ask_noted(request) {
            Ok(_) => done += 1,
            Err(error) => context.complain(&error_line("unload", &error.to_string())),
        }
    }
    if !wanted.is_empty() {
        let all = wanted.len();
        context.line(&format!("{done} / {all} key(s) successfully unloaded"));
    }
    Ok(if done == wanted.len() { 0 } else { 255 })
}

fn unload_one(roots: &[String], context: &mut Context) -> Outcome {
    for dataset in roots {
        let request = Request::UnloadKey {
            dataset: dataset.clone(),
        };
        match context.ask_noted(request) {
            Ok(_) => {}
            Err(error @ ControlError::NoSuchDataset { .. }) => {
                return failed(cannot_open(dataset, &error));
            }
            Err(error) => {
                context.complain(&error_line("unload", &error.to_string()));
                return Err(Stop::Code(255));
            }
        }
    }
    Ok(0)
}
