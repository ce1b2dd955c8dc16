//! `zfs userspace`, `groupspace` and `projectspace`.

use std::cmp::Ordering;

use cenote_control::model::{
    AccountKind, AccountOwner, ControlError, DatasetKind, KindSet, Part, Request, SpaceAccount,
};

use super::select::resolve;
use crate::accounts::Accounts;
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::format::number::{nicebytes, nicenum};
use cenote_words::format::table::{Column, table};
use cenote_words::getopt::Parsed;
use cenote_words::program::CommandLine;
use cenote_words::texts::{cannot_open, question, with_context};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Type,
    Name,
    Used,
    Quota,
    ObjectsUsed,
    ObjectsQuota,
}

const FIELDS: [(&str, &str, Field); 6] = [
    ("type", "TYPE", Field::Type),
    ("name", "NAME", Field::Name),
    ("used", "USED", Field::Used),
    ("quota", "QUOTA", Field::Quota),
    ("objused", "OBJUSED", Field::ObjectsUsed),
    ("objquota", "OBJQUOTA", Field::ObjectsQuota),
];

fn field(word: &str) -> Option<Field> {
    let found = FIELDS.iter().find(|(name, ..)| *name == word);
    found.map(|(.., field)| *field)
}

/// The kind of accounts: users, groups or projects, and POSIX or SMB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    kind: AccountKind,
    smb: bool,
    word: &'static str,
    option: &'static str,
}

const fn class(kind: AccountKind, smb: bool, word: &'static str, option: &'static str) -> Class {
    Class {
        kind,
        smb,
        word,
        option,
    }
}

const CLASSES: [Class; 5] = [
    class(AccountKind::User, false, "POSIX User", "posixuser"),
    class(AccountKind::User, true, "SMB User", "smbuser"),
    class(AccountKind::Group, false, "POSIX Group", "posixgroup"),
    class(AccountKind::Group, true, "SMB Group", "smbgroup"),
    class(AccountKind::Project, false, "Project", "project"),
];

/// One account with its class and its displayed name.
struct Row {
    class: Class,
    name: String,
    account: SpaceAccount,
}

/// Runs one of the three.
pub fn run(line: &CommandLine<'_>, context: &mut Context) -> Outcome {
    let parsed = line.parse()?;
    let keys = sort_keys(&parsed)?;
    let classes = match classes(line.name(), &parsed) {
        Ok(classes) => classes,
        Err(message) => return complain_255(&message, context),
    };
    let fields = match fields(&parsed) {
        Ok(fields) => fields,
        Err(message) => return complain_255(&message, context),
    };
    let operand = match parsed.operands.as_slice() {
        [] => return usage(""),
        [operand] => operand,
        _ => return usage("too many arguments"),
    };
    let accepted = KindSet::HEADS.union(KindSet::of(DatasetKind::Snapshot));
    let dataset = match resolve(operand, accepted, true, context) {
        Ok(dataset) => dataset,
        Err(message) => return failed(message),
    };
    let mut rows = Vec::new();
    for kind in [AccountKind::User, AccountKind::Group, AccountKind::Project] {
        if classes.iter().any(|class| class.kind == kind) {
            rows.extend(ask(&dataset, kind, &classes, parsed.has("n"), context)?);
        }
    }
    if parsed.has("i") && rows.iter().any(|row| row.class.smb) {
        context.complain("SIDs stay as they are: this system has no map of them to numbers");
    }
    rows.sort_by(|a, b| compare(a, b, &keys));
    print(&rows, &fields, &parsed, context);
    Ok(0)
}

fn complain_255(message: &str, context: &mut Context) -> Outcome {
    context.complain(message);
    Err(Stop::Code(255))
}

fn sort_keys(parsed: &Parsed) -> Result<Vec<(Field, bool)>, Stop> {
    let mut keys = Vec::new();
    for (option, word) in parsed.in_order(&["s", "S"]) {
        match field(word) {
            Some(field) => keys.push((field, option == "S")),
            None => {
                let question = question(word, FIELDS.map(|(name, ..)| name));
                return usage(format!("invalid field '{word}'{question}"));
            }
        }
    }
    Ok(keys)
}

fn classes(command: &str, parsed: &Parsed) -> Result<Vec<Class>, String> {
    let Some(list) = parsed.last("t") else {
        let kind = match command {
            "userspace" => AccountKind::User,
            "groupspace" => AccountKind::Group,
            _ => AccountKind::Project,
        };
        return Ok(CLASSES
            .into_iter()
            .filter(|class| class.kind == kind)
            .collect());
    };
    let mut classes = Vec::new();
    for word in list.split(',') {
        if word == "all" {
            return Ok(CLASSES.to_vec());
        }
        let found = CLASSES.iter().find(|class| class.option == word);
        let wrong = || {
            let known = CLASSES.iter().map(|class| class.option).chain(["all"]);
            let question = question(word, known);
            format!("invalid type '{word}' for -t option{question}")
        };
        classes.push(*found.ok_or_else(wrong)?);
    }
    Ok(classes)
}

fn fields(parsed: &Parsed) -> Result<Vec<Field>, String> {
    let Some(list) = parsed.last("o") else {
        return Ok(FIELDS.map(|(.., field)| field).to_vec());
    };
    let wrong = |word: &str| {
        let question = question(word, FIELDS.map(|(name, ..)| name));
        format!("invalid type '{word}' for -o option{question}")
    };
    let known = |word: &str| field(word).ok_or_else(|| wrong(word));
    list.split(',').map(known).collect()
}

fn ask(
    dataset: &str,
    kind: AccountKind,
    classes: &[Class],
    numeric: bool,
    context: &mut Context,
) -> Result<Vec<Row>, Stop> {
    let mut accounts: Vec<SpaceAccount> = Vec::new();
    let request = Request::UserSpace {
        dataset: dataset.to_owned(),
        kind,
    };
    let answer = context.ask_in_parts(request, &mut |part| {
        if let Part::Accounts(more) = part {
            accounts.extend(more);
        }
    });
    match answer {
        Ok(_) => {}
        Err(error @ ControlError::NoSuchDataset { .. }) => {
            return failed(cannot_open(dataset, &error));
        }
        Err(error @ ControlError::WrongKind { .. }) => return failed(cannot_open(dataset, &error)),
        Err(error) => {
            let what = format!("cannot get used/quota for {dataset}");
            context.complain(&with_context(&what, &error));
            return Err(Stop::Code(255));
        }
    }
    let names = match kind {
        AccountKind::User => Some(Accounts::Users),
        AccountKind::Group => Some(Accounts::Groups),
        AccountKind::Project => None,
    };
    let mut rows = Vec::new();
    for account in accounts {
        let smb = matches!(account.owner, AccountOwner::Sid(_));
        let class = classes
            .iter()
            .find(|class| class.kind == kind && class.smb == smb);
        let Some(class) = class else { continue };
        let name = match &account.owner {
            AccountOwner::Sid(sid) => sid.clone(),
            AccountOwner::Id(id) => {
                let known = names.filter(|_| !numeric).and_then(|names| names.name(*id));
                known.unwrap_or_else(|| id.to_string())
            }
        };
        rows.push(Row {
            class: *class,
            name,
            account,
        });
    }
    Ok(rows)
}

fn compare(a: &Row, b: &Row, keys: &[(Field, bool)]) -> Ordering {
    for (field, descending) in keys {
        let order = compare_field(a, b, *field);
        let order = if *descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    compare_field(a, b, Field::Type).then_with(|| compare_field(a, b, Field::Name))
}

fn compare_field(a: &Row, b: &Row, field: Field) -> Ordering {
    match field {
        Field::Type => a.class.word.cmp(b.class.word),
        // Names come first; numbers are in numerical order: 1000 comes after 70.
        Field::Name => match (a.name.parse::<u64>(), b.name.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Greater,
            (Err(_), Ok(_)) => Ordering::Less,
            (Err(_), Err(_)) => a.name.cmp(&b.name),
        },
        Field::Used => a.account.used.cmp(&b.account.used),
        Field::Quota => a.account.quota.cmp(&b.account.quota),
        Field::ObjectsUsed => a.account.objects_used.cmp(&b.account.objects_used),
        Field::ObjectsQuota => a.account.objects_quota.cmp(&b.account.objects_quota),
    }
}

fn print(rows: &[Row], fields: &[Field], parsed: &Parsed, context: &mut Context) {
    let exact = parsed.has("p");
    let limit = |number: u64, shown: String| match number {
        0 if exact => "0".to_owned(),
        0 => "none".to_owned(),
        _ => shown,
    };
    let bytes = |n: u64| if exact { n.to_string() } else { nicebytes(n) };
    let count = |n: u64| if exact { n.to_string() } else { nicenum(n) };
    let cell = |row: &Row, field: &Field| {
        let account = &row.account;
        match field {
            Field::Type => row.class.word.to_owned(),
            Field::Name => row.name.clone(),
            Field::Used => bytes(account.used),
            Field::Quota => limit(account.quota, bytes(account.quota)),
            Field::ObjectsUsed => account.objects_used.map_or("-".to_owned(), count),
            Field::ObjectsQuota => limit(account.objects_quota, count(account.objects_quota)),
        }
    };
    let column = |field: &Field| {
        let found = FIELDS.iter().find(|(.., known)| known == field);
        let header = found.map_or("", |(_, header, _)| header);
        let mut column = Column::text(header);
        column.right = !matches!(field, Field::Type | Field::Name);
        column
    };
    let columns: Vec<Column> = fields.iter().map(column).collect();
    let cells = |row: &Row| fields.iter().map(|field| cell(row, field)).collect();
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    context.print(&table(&columns, &lines, parsed.has("H")));
}
