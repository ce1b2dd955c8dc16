//! The command against canned answers.

use super::*;
use cenote_control::model::{
    ControlError, Injected, InjectedError, InjectedLabel, InjectedPlace, InjectedWork, Injection,
    InjectionRow, Part,
};
use cenote_control::protocol::{CallError, Interrupt};
use cenote_words::context::Daemon;
use std::io::Write;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Notes what it is asked, and answers with these faults.
struct Canned {
    asked: Arc<Mutex<Vec<InjectAct>>>,
    rows: Vec<InjectionRow>,
}

impl Daemon for Canned {
    fn call(
        &mut self,
        request: Request,
        _: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        let Request::Inject { act } = request else {
            let pool = "tank".to_owned();
            return Err(CallError::Refused(ControlError::NoSuchPool { pool }));
        };
        self.asked.lock().expect("no panic").push(act);
        let rows = self.rows.clone();
        Ok(Response::Injections { rows })
    }
}

/// Runs a command line: its exit code, both outputs, and what it asked.
fn zinject(line: &str, rows: &[InjectionRow]) -> (u8, String, String, Vec<InjectAct>) {
    let (out, err, asked) = (Output::default(), Output::default(), Arc::default());
    let canned = Canned {
        asked: Arc::clone(&asked),
        rows: rows.to_vec(),
    };
    let outputs = (Box::new(out.clone()), Box::new(err.clone()));
    let mut context = Context::new(outputs.0, outputs.1, Box::new(canned));
    let words: Vec<String> = line
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let code = run(&words, &mut context);
    let code = context.finish(code);
    let asked = asked.lock().expect("no panic").clone();
    (code, out.text(), err.text(), asked)
}

fn asked(line: &str) -> InjectAct {
    let (code, _, err, mut asked) = zinject(line, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{line}");
    assert_eq!(asked.len(), 1, "{line}");
    asked.remove(0)
}

fn fault(line: &str) -> Injection {
    match asked(line) {
        InjectAct::Add { pool, fault, .. } if pool == "tank" => fault,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn device_faults_and_delays_are_understood() {
    let device = |error, work, label, per_million| Injection::Device {
        device: "sda".to_owned(),
        error,
        work,
        label,
        per_million,
    };
    let million = 1_000_000;
    assert_eq!(
        fault("-d sda tank"),
        device(InjectedError::Nxio, InjectedWork::All, None, million)
    );
    assert_eq!(
        fault("-d sda -e io -T read -f 0.001 tank"),
        device(InjectedError::Io, InjectedWork::Read, None, 10)
    );
    let label = Some(InjectedLabel::Uber);
    assert_eq!(
        fault("-f 50 -e io -L uber -T write -d sda tank"),
        device(InjectedError::Io, InjectedWork::Write, label, million / 2)
    );
    let delay = Injection::Delay {
        device: "sda".to_owned(),
        latency_ms: 10_000,
        lanes: 1,
        work: InjectedWork::All,
    };
    assert_eq!(fault("-d sda -D10000:1 tank"), delay);
    let blame = InjectAct::Blame {
        pool: "tank".to_owned(),
        device: "sda".to_owned(),
        fault: false,
    };
    assert_eq!(asked("-d sda -A degrade tank"), blame);
}

#[test]
fn blocks_are_understood() {
    let place = |level, start, end| InjectedPlace::Bookmark {
        objset: 0x36,
        object: 2,
        level,
        start,
        end,
    };
    let blocks = |line: &str| match fault(line) {
        Injection::Blocks { place, copies, .. } => (place, copies),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(blocks("-b 36:2:0:3fff tank"), (place(0, 0x3fff, 0x3fff), 0));
    assert_eq!(blocks("-b 36:2:1:0:7 -C 0,2 tank"), (place(1, 0, 7), 0b101));
    let (mos, _) = blocks("-t spacemap -r 1,0x10 tank");
    assert!(
        matches!(
            mos,
            InjectedPlace::Metadata {
                blocks: Some((1, 16)),
                ..
            }
        ),
        "{mos:?}"
    );
    assert_eq!(
        fault("-P import -s 12 tank"),
        Injection::Import { seconds: 12 }
    );
    assert_eq!(fault("-i 12 tank"), Injection::Import { seconds: 12 });
    assert_eq!(
        fault("-P export -s 8 tank"),
        Injection::Export { seconds: 8 }
    );
}

#[test]
fn wrong_command_lines_ask_nothing() {
    for line in [
        "tank",
        "-d sda",
        "-d sda -e eio tank",
        "-d sda -e corrupt -T write tank",
        "-d sda -f 0 tank",
        "-d sda -f 101 tank",
        "-d sda -D 25 tank",
        "-d sda -D 25:1 -T flush tank",
        "-d sda -t data tank",
        "-d sda -A offline tank",
        "-b 36:2:0 tank",
        "-b 36:2:100:0 tank",
        "-t file tank",
        "-t mos -r 7,6 tank",
        "-t mos -e decrypt -C 0 tank",
        "-t mos -C 3 tank",
        "-t mos -T write tank",
        "-t dnode -r 0 file",
        "-P scrub -s 8 tank",
        "-P export tank",
        "-c",
        "-c three",
        "-c all tank",
        "-R tank",
    ] {
        let (code, out, err, asked) = zinject(line, &[]);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(
            err.starts_with("zinject: ") && err.contains("usage:"),
            "{line}: {err}"
        );
        assert_eq!(asked, [], "{line}");
    }
    for line in [
        "-I -s 3 tank",
        "-p dmu_sync tank",
        "-t mos -u tank",
        "-d sda -F tank",
    ] {
        let (code, _, err, asked) = zinject(line, &[]);
        assert!(
            code == 1 && err.contains("is not possible here: "),
            "{line}: {err}"
        );
        assert_eq!(asked, [], "{line}");
    }
    let (code, out, _, asked) = zinject("-h", &[]);
    assert!(code == 0 && out.contains("zinject -c ID|all") && asked.is_empty());
}

#[test]
fn faults_are_listed_by_kind() {
    let (code, out, _, asked) = zinject("", &[]);
    assert_eq!((code, out.as_str()), (0, "No handlers registered.\n"));
    assert_eq!(asked, [InjectAct::List]);
    let row = |id, fault| InjectionRow {
        id,
        pool: "tank".to_owned(),
        fault,
    };
    let rows = [
        row(
            1,
            Injected::Device {
                guid: 0x8bb5,
                error: InjectedError::Io,
                work: InjectedWork::Read,
                label: None,
                per_million: 10,
            },
        ),
        row(
            2,
            Injected::Blocks {
                objset: 54,
                object: Some(2),
                object_type: None,
                level: 0,
                blocks: None,
                error: InjectedError::Checksum,
                per_million: 1_000_000,
                copies: 3,
            },
        ),
        row(3, Injected::Import { seconds: 12 }),
    ];
    let (_, out, _, _) = zinject("", &rows);
    let text = "\
\x20ID  POOL             OBJSET  OBJECT  TYPE      LVL  DVAs  RANGE            ERROR       FREQ
---  ---------------  ------  ------  --------  ---  ----  ---------------  ----------  ---------
  2  tank             54      2       -         0    0x03  all              checksum    100.0000%

 ID  POOL             GUID              TYPE   ERROR       LABEL   FREQ
---  ---------------  ----------------  -----  ----------  ------  ---------
  1  tank             8bb5              read   io          -       0.0010%

 ID  POOL             FUNCTION  SECONDS
---  ---------------  --------  -------
  3  tank             import    12
";
    assert_eq!(out, text);
    let (_, out, _, _) = zinject("-d sda -q tank", &rows[..1]);
    assert_eq!(out, "1\n");
    let (_, out, _, _) = zinject("-d sda tank", &rows[..1]);
    let added = "Added handler 1 with the following properties:\n  pool: tank\n  vdev: 8bb5\n";
    assert_eq!(out, added);
    let (_, out, _, _) = zinject("-c all", &rows);
    assert_eq!(out, "removed all registered handlers\n");
    assert_eq!(super::tests::asked("-a"), InjectAct::Flush);
}

#[test]
fn a_file_that_is_in_no_pool_is_refused() {
    let (code, _, err, asked) = zinject("-t data -am /proc/self/status", &[]);
    assert_eq!((code, asked.len()), (1, 0));
    assert!(err.contains("no such pool"), "{err}");
    let (code, _, err, _) = zinject("-t data /no/such/file", &[]);
    assert!(code == 1 && err.contains("'/no/such/file': "), "{err}");
}
