//! `cenote http start`.

use cenote_control::model::{
    HttpAct, HttpLimits, HttpOptions, HttpServer, HttpSite, HttpState, HttpTls, Request, Response,
};
use cenote_http::host_name;
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed, mismatch, usage};
use std::ffi::OsStr;
use std::path::Path;

/// The word for the newest snapshot.
const LATEST: &str = "latest";

fn text(name: &str, word: &OsStr) -> Result<String, Stop> {
    match word.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => usage(format!("--{name}: must be text")),
    }
}

fn texts(arguments: &Arguments, name: &str) -> Result<Vec<String>, Stop> {
    arguments.all(name).map(|word| text(name, word)).collect()
}

/// The values given instead of a default; an empty word means none.
fn chosen(arguments: &Arguments, name: &str) -> Result<Option<Vec<String>>, Stop> {
    let given = texts(arguments, name)?;
    let is_given = !given.is_empty();
    let given: Vec<String> = given.into_iter().filter(|one| !one.is_empty()).collect();
    Ok(is_given.then_some(given))
}

/// The absolute path of a file, so that it is valid for the daemon.
fn file(arguments: &Arguments, name: &str, context: &Context) -> Option<String> {
    let given = arguments.last(name)?;
    Some(
        context
            .place(Path::new(given))
            .to_string_lossy()
            .into_owned(),
    )
}

fn options(arguments: &Arguments, context: &Context) -> Result<HttpOptions, Stop> {
    let files = (
        file(arguments, "tls-certificate", context),
        file(arguments, "tls-key", context),
    );
    let tls = match files {
        (Some(certificate), Some(key)) => Some(HttpTls { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return usage("--tls-certificate needs --tls-key"),
        (None, Some(_)) => return usage("--tls-key needs --tls-certificate"),
    };
    let autoindex = arguments
        .last("autoindex")
        .map(|word| text("autoindex", word));
    let autoindex = autoindex.transpose()?;
    if let Some(form) = &autoindex
        && !["html", "json", "xml", "off"].contains(&form.as_str())
    {
        return usage("--autoindex: must be html, json, xml or off");
    }
    let listen = texts(arguments, "listen")?.into_iter();
    let listen = listen.map(|address| address_of(&address, context));
    Ok(HttpOptions {
        listen: listen.collect(),
        tls,
        hidden: chosen(arguments, "hidden")?,
        blocked_agents: texts(arguments, "block-agent")?,
        autoindex,
        index: chosen(arguments, "index")?,
        robots: file(arguments, "robots", context),
        style: file(arguments, "style", context),
        access_log: file(arguments, "access-log", context),
        limits: HttpLimits {
            connections: limit("limit-connections", arguments.number("limit-connections")?)?,
            connections_per_address: limit("limit-address", arguments.number("limit-address")?)?,
            requests_per_second: limit("limit-requests", arguments.number("limit-requests")?)?,
            bytes_per_second: limit("limit-rate", arguments.size("limit-rate")?)?,
        },
    })
}

/// The maximum of a limit.
const LIMIT_MAX: u64 = u32::MAX as u64;

/// A limit. 0, which means no limit, is the default and cannot be given.
fn limit(name: &'static str, given: Option<u64>) -> Result<u64, Stop> {
    let most = match name {
        "limit-rate" => u64::MAX,
        _ => LIMIT_MAX,
    };
    match given {
        Some(number) if !(1..=most).contains(&number) => usage(format!(
            "--{name}: must be from 1 to {most}; leave it out for the default"
        )),
        given => Ok(given.unwrap_or(0)),
    }
}

/// An address with an absolute path, so that it is valid for the daemon.
pub fn address_of(address: &str, context: &Context) -> String {
    match address
        .strip_prefix("unix:")
        .filter(|path| !path.is_empty())
    {
        Some(path) => {
            let path = context.place(Path::new(path));
            format!("unix:{}", path.to_string_lossy())
        }
        None => address.to_owned(),
    }
}

/// A site of `HOST[/PATH]=DATASET`.
fn placed(word: &str) -> Result<HttpSite, Stop> {
    let Some((place, dataset)) = word.split_once('=') else {
        return usage("--site: must be HOST[/PATH]=DATASET");
    };
    let (host, path) = match place.find('/') {
        Some(slash) => place.split_at(slash),
        None => (place, "/"),
    };
    let named = match host {
        "" => None,
        host => match host_name(host) {
            Some(name) => Some(name),
            None => {
                return usage(format!(
                    "--site: '{host}' is no name of a host: give it without port and wildcard, or \
                     begin with '/' to serve any host"
                ));
            }
        },
    };
    let components = path.split('/').filter(|part| !part.is_empty());
    if components.clone().any(|part| part == "." || part == "..") {
        return usage("--site: the path must not have '.' or '..' in it");
    }
    Ok(HttpSite {
        host: named,
        path: format!("/{}", components.collect::<Vec<_>>().join("/")),
        dataset: dataset.to_owned(),
        ..HttpSite::default()
    })
}

/// The default place of a dataset on a server.
fn at_its_name(dataset: &str, is_alone: bool) -> HttpSite {
    let name = dataset.split('@').next().unwrap_or(dataset);
    let last = name.rsplit('/').next().unwrap_or(name);
    HttpSite {
        path: if is_alone {
            "/".to_owned()
        } else {
            format!("/{last}")
        },
        dataset: dataset.to_owned(),
        ..HttpSite::default()
    }
}

fn sites(datasets: &[&str], arguments: &Arguments) -> Result<Vec<HttpSite>, Stop> {
    let placed: Vec<HttpSite> = texts(arguments, "site")?
        .iter()
        .map(|word| placed(word))
        .collect::<Result<_, _>>()?;
    let is_alone = datasets.len() == 1 && placed.is_empty();
    let named = datasets
        .iter()
        .map(|dataset| at_its_name(dataset, is_alone));
    let mut sites: Vec<HttpSite> = named.chain(placed).collect();
    let pattern = arguments
        .last("snapshot")
        .map(|word| text("snapshot", word))
        .transpose()?;
    for site in &mut sites {
        site.recursive = arguments.has("recursive");
        // A site of a named snapshot always shows that snapshot.
        if let Some(pattern) = pattern.as_deref().filter(|_| !site.dataset.contains('@')) {
            let pattern = if pattern == LATEST { "*" } else { pattern };
            site.state = HttpState::Latest {
                pattern: pattern.to_owned(),
            };
        }
    }
    Ok(sites)
}

/// Starts sites in the daemon, and prints an address for each.
pub fn run(datasets: &[&str], arguments: &Arguments, context: &mut Context) -> Outcome {
    let sites = sites(datasets, arguments)?;
    if sites.is_empty() {
        return usage("which datasets?");
    }
    let options = options(arguments, context)?;
    let act = HttpAct::Start {
        sites: sites.clone(),
        options,
    };
    let servers = match context.ask(Request::Http { act }) {
        Ok(Response::Http { servers }) => servers,
        Ok(_) => return failed(mismatch().to_string()),
        Err(error) => {
            let names: Vec<&str> = sites.iter().map(|site| site.dataset.as_str()).collect();
            return failed(format!("cannot serve '{}': {error}", names.join(" ")));
        }
    };
    for server in &servers {
        for site in &sites {
            urls(server, site).iter().for_each(|url| context.line(url));
        }
        for site in server.sites.iter().filter(|site| site.problem.is_some()) {
            let problem = site.problem.as_deref().unwrap_or_default();
            context.complain(&format!(
                "cenote http: '{}' is not shown yet: {problem}",
                site.site.dataset
            ));
        }
    }
    Ok(0)
}

/// The addresses of a site on its server.
fn urls(server: &HttpServer, site: &HttpSite) -> Vec<String> {
    let scheme = if server.is_encrypted { "https" } else { "http" };
    let path = format!("{}/", site.path.trim_end_matches('/'));
    let each = server.addresses.iter().map(|address| {
        if address.starts_with("unix:") {
            return format!("{address} {path}");
        }
        let address = address.strip_prefix("tls:").unwrap_or(address);
        let port = address.rsplit(':').next().unwrap_or_default();
        match &site.host {
            Some(host) => format!("{scheme}://{host}:{port}{path}"),
            None => format!("{scheme}://{address}{path}"),
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_where_their_option_says() {
        let site = placed("Mirror.Example.org/a//b/=tank/x@s").expect("good");
        assert_eq!(site.host.as_deref(), Some("mirror.example.org"));
        assert_eq!(
            (site.path.as_str(), site.dataset.as_str()),
            ("/a/b", "tank/x@s")
        );
        let site = placed("/pub=tank").expect("good");
        assert_eq!((site.host, site.path.as_str()), (None, "/pub"));
        assert_eq!(placed("example.org=tank").expect("good").path, "/");
        assert!(placed("tank").is_err() && placed("h/../x=tank").is_err());
        let site = placed("example.org.=tank").expect("good");
        assert_eq!(
            site.host.as_deref(),
            Some("example.org"),
            "as requests have it"
        );
        for host in ["example.org:80", "*.example.org", "a b", "exa\u{308}mple"] {
            assert!(placed(&format!("{host}/x=tank")).is_err(), "{host}");
        }
        assert_eq!(at_its_name("tank/debian@s", true).path, "/");
        assert_eq!(at_its_name("tank/debian@s", false).path, "/debian");
    }

    /// Previously, zero was taken for the default, and numbers that were too large for no limit.
    #[test]
    fn limits_that_are_none_are_refused() {
        for (name, number) in [
            ("limit-connections", 0),
            ("limit-rate", 0),
            ("limit-requests", u64::MAX),
        ] {
            assert!(
                matches!(limit(name, Some(number)), Err(Stop::Usage(_))),
                "{name}"
            );
        }
        assert_eq!(limit("limit-requests", Some(7)).ok(), Some(7));
        assert_eq!(limit("limit-requests", None).ok(), Some(0));
    }

    #[test]
    fn urls_are_what_a_browser_takes() {
        let mut server = HttpServer {
            addresses: vec!["127.0.0.1:81".to_owned(), "unix:/run/s".to_owned()],
            ..HttpServer::default()
        };
        let mut site = at_its_name("tank/a", false);
        assert_eq!(
            urls(&server, &site),
            ["http://127.0.0.1:81/a/", "unix:/run/s /a/"]
        );
        site.host = Some("example.org".to_owned());
        server.is_encrypted = true;
        server.addresses = vec!["tls:[::]:443".to_owned()];
        assert_eq!(urls(&server, &site), ["https://example.org:443/a/"]);
    }
}
