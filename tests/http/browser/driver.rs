//! A Chromium for tests: one driver process for all of them, a browser with a fresh profile for
//! each.
//!
//! Nothing sleeps for luck: a step waits until the page is as it must be, for a generous time,
//! and fails with what was waited for. A page that writes an error to its console fails its test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thirtyfour::prelude::*;
use thirtyfour::{ChromiumLikeCapabilities, LoggingPrefsLogLevel};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::support::prelude::*;

/// How long a step may take: a test machine may be busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(45);
/// The pause between two looks at a page.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Browsers that run at once: most tests wait for their page half of the time.
static BROWSERS: Semaphore = Semaphore::const_new(4);

/// Runs the driver in a session of its own, which ends with us, in whatever way we end: then our
/// end of the pipe closes.
const GUARD: &str = r#"
setsid "$1" --port=0 </dev/null &
driver=$!
cat >/dev/null
kill -s TERM "$driver"
sleep 1
kill -s KILL -- "-$driver"
"#;

/// The process that drives browsers.
struct Driver {
    address: String,
    /// The shell that guards it; while we hold its stdin, the driver runs.
    _guard: Child,
}

static DRIVER: LazyLock<Driver> = LazyLock::new(|| {
    let program = std::env::var("SECKILL_CHROMEDRIVER").unwrap_or("chromedriver".to_owned());
    let mut guard = Command::new("/bin/sh")
        .args(["-c", GUARD, "seckill-guardian", &program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut lines = BufReader::new(guard.stdout.take().expect("stdout is a pipe")).lines();
    let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, port) = line.split_once("successfully on port ")?;
        Some(port.trim_end_matches('.').to_owned())
    });
    let port = port.expect("chromedriver starts; scripts/install-packages browser installs it");
    // Whatever else it says must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Driver { address: format!("http://127.0.0.1:{port}"), _guard: guard }
});

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: u32,
    pub height: u32,
    pub phone: bool,
    pub dark: bool,
    /// What the browser says its reader reads.
    pub language: &'static str,
    /// The name of this machine in addresses, as on another machine; `None`: its number.
    pub host: Option<&'static str>,
}

pub const DESKTOP: Look =
    Look { width: 1280, height: 900, phone: false, dark: false, language: "en-US", host: None };
pub const PHONE: Look = Look { width: 390, height: 844, phone: true, ..DESKTOP };
/// A phone in the dark, whose reader reads Chinese.
pub const CHINESE_PHONE: Look = Look { dark: true, language: "zh-CN", ..PHONE };

/// A window with one of our pages in it.
pub struct Page {
    driver: WebDriver,
    base: String,
    _permit: SemaphorePermit<'static>,
}

impl Page {
    /// Starts a browser, without a page yet.
    pub async fn open(addr: SocketAddr, look: Look) -> Self {
        let permit = BROWSERS.acquire().await.expect("never closed");
        let address =
            tokio::task::spawn_blocking(|| DRIVER.address.clone()).await.expect("a driver");
        let driver = WebDriver::new(address, capabilities(look)).await.expect("a browser");
        if look.dark {
            let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
            driver.cdp().send_raw("Emulation.setEmulatedMedia", dark).await.expect("dark");
        }
        driver.set_script_timeout(PATIENCE).await.expect("a timeout");
        let base = match look.host {
            Some(name) => format!("http://{name}:{}", addr.port()),
            None => format!("http://{addr}"),
        };
        Self { driver, base, _permit: permit }
    }

    /// Starts a browser in which a buyer is signed in and looks at a page.
    pub async fn of_buyer(instance: &Instance, look: Look, buyer: i64, path: &str) -> Self {
        let page = Self::open(instance.addr, look).await;
        page.visit_as(instance, buyer, Role::Buyer, path).await;
        page
    }

    /// Starts a browser in which an operator is signed in and looks at a page.
    pub async fn of_operator(instance: &Instance, look: Look, path: &str) -> Self {
        let page = Self::open(instance.addr, look).await;
        page.visit_as(instance, 1, Role::Admin, path).await;
        page
    }

    /// Goes to a path of the shop and waits until its scripts have run.
    pub async fn visit(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.base)).await.expect("the page loads");
        self.until("the scripts", "document.getElementById('account').childElementCount > 0").await;
    }

    /// Goes to a path of the shop, and waits until an element shows a text.
    pub async fn visit_until(&self, path: &str, shown: &str, text: &str) {
        self.visit(path).await;
        self.until_text(shown, text).await;
    }

    /// Waits until an element is there, on whatever site.
    pub async fn until_there(&self, css: &str) {
        self.until(css, &format!("document.querySelector({}) !== null", json!(css))).await;
    }

    /// Goes to an address of another site.
    pub async fn visit_elsewhere(&self, address: &str) {
        self.driver.goto(address).await.expect("the page loads");
    }

    /// Opens a page signed in without the form: sets the token cookie and the pages' own storage.
    pub async fn visit_as(&self, instance: &Instance, user: i64, role: Role, path: &str) {
        self.driver.goto(format!("{}/404.html", self.base)).await.expect("an address of ours");
        let remember = "document.cookie = `seckill=${arguments[0]}; path=/`; \
             localStorage.setItem('seckill.session', arguments[1]);";
        self.run_with(remember, signed_in(instance, user, role)).await;
        self.visit(path).await;
    }

    /// Runs a script in every page from now on, before the page's own.
    pub async fn before_scripts(&self, source: &str) {
        let added = self.driver.cdp();
        let source = json!({ "source": source });
        let added = added.send_raw("Page.addScriptToEvaluateOnNewDocument", source).await;
        added.expect("the script is taken");
    }

    /// Lets the files of the shop under these paths fail to load from now on; `*` is any text.
    pub async fn block(&self, paths: &[&str]) {
        let network = self.driver.cdp();
        network.send_raw("Network.enable", json!({})).await.expect("the network's switch");
        let blocked = json!({ "urls": paths });
        network.send_raw("Network.setBlockedURLs", blocked).await.expect("blocked");
    }

    /// Deletes all cookies, those that no script can see included; the pages' storage stays.
    pub async fn forget_cookies(&self) {
        self.driver.delete_all_cookies().await.expect("no cookies");
    }

    /// Loads the page again.
    pub async fn reload(&self) {
        self.driver.refresh().await.expect("the page loads again");
    }

    /// Loads the page again, and waits until an element shows a text.
    pub async fn reload_until(&self, shown: &str, text: &str) {
        self.reload().await;
        self.until_text(shown, text).await;
    }

    /// Runs a script and answers what it returns.
    pub async fn run(&self, script: &str) -> Value {
        self.run_with(script, Vec::new()).await
    }

    /// Runs a script with arguments and answers what it returns.
    pub async fn run_with(&self, script: &str, arguments: Vec<Value>) -> Value {
        let ended = self.driver.execute(script, arguments).await;
        ended.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Runs a script that ends by calling its last argument, and answers what it says.
    pub async fn run_async(&self, script: &str, arguments: Vec<Value>) -> Value {
        let ended = self.driver.execute_async(script, arguments).await;
        ended.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Waits until an expression is true.
    pub async fn until(&self, what: &str, expression: &str) {
        let script = format!("return Boolean({expression})");
        let began = Instant::now();
        loop {
            // While a page is being left, its scripts cannot be run.
            let seen = self.driver.execute(script.as_str(), Vec::new()).await;
            if seen.is_ok_and(|seen| seen.json() == &json!(true)) {
                return;
            }
            if began.elapsed() > PATIENCE {
                self.take_picture("failed").await;
                let body = self.run("return document.body.innerText").await;
                panic!("waited in vain for {what}: {expression}\non the page:\n{body}");
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits until an element shows a text.
    pub async fn until_text(&self, css: &str, text: &str) {
        let expression = format!(
            "document.querySelector({}) && document.querySelector({}).innerText.includes({})",
            json!(css),
            json!(css),
            json!(text)
        );
        self.until(&format!("{text:?} in {css}"), &expression).await;
    }

    /// Waits until the page is loaded, and so its scripts have run, and an element is shown on it that can be used.
    async fn until_usable(&self, css: &str) {
        let expression = format!(
            "(() => {{ const e = document.querySelector({}); \
             return document.readyState === 'complete' && e && e.checkVisibility() \
               && e.getAttribute('aria-disabled') !== 'true'; }})()",
            json!(css)
        );
        self.until(&format!("{css} to be usable"), &expression).await;
    }

    /// Clicks what can be clicked by then.
    pub async fn click(&self, css: &str) {
        self.until_usable(css).await;
        let element = self.find(css).await;
        element.scroll_into_view().await.expect("in view");
        element.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Clicks, and waits until an element shows a text.
    pub async fn click_until(&self, css: &str, shown: &str, text: &str) {
        self.click(css).await;
        self.until_text(shown, text).await;
    }

    /// Replaces a field's text by typing.
    pub async fn fill(&self, css: &str, text: &str) {
        self.until_usable(css).await;
        let field = self.find(css).await;
        field.clear().await.expect("emptied");
        field.send_keys(text).await.expect("typed");
    }

    /// Presses keys, wherever the focus is.
    pub async fn press(&self, keys: impl Into<TypingData>) {
        let focused = self.driver.active_element().await.expect("a focused element");
        focused.send_keys(keys).await.expect("pressed");
    }

    /// Opens a second window with the same profile and goes there with it; answers how to switch.
    pub async fn second_window(&self) -> (WindowHandle, WindowHandle) {
        let first = self.driver.window().await.expect("a window");
        let second = self.driver.new_window().await.expect("another window");
        self.driver.switch_to_window(second.clone()).await.expect("switched");
        (first, second)
    }

    /// Goes to another window.
    pub async fn switch(&self, window: &WindowHandle) {
        self.driver.switch_to_window(window.clone()).await.expect("switched");
    }

    /// Cuts the page off from everything, or connects it again.
    pub async fn offline(&self, offline: bool) {
        let conditions = json!({
            "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1,
        });
        let network = self.driver.cdp();
        network.send_raw("Network.enable", json!({})).await.expect("the network's switch");
        network.send_raw("Network.emulateNetworkConditions", conditions).await.expect("switched");
    }

    /// Changes the width of the page; a dark one is for a reader who wants no motion, too.
    pub async fn look_as(&self, width: u32, dark: bool) {
        let size =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        let page = self.driver.cdp();
        page.send_raw("Emulation.setDeviceMetricsOverride", size).await.expect("a size");
        let (scheme, motion) = if dark { ("dark", "reduce") } else { ("light", "no-preference") };
        let features = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": motion },
        ] });
        page.send_raw("Emulation.setEmulatedMedia", features).await.expect("media");
    }

    /// Takes a picture of the whole page into `target/screenshots`, in `make test-all`.
    pub async fn shot(&self, name: &str) {
        if is_whole() {
            self.take_picture(name).await;
        }
    }

    async fn take_picture(&self, name: &str) {
        let metrics = self.driver.cdp().send_raw("Page.getLayoutMetrics", json!({})).await;
        let size = metrics.expect("the page's size")["cssContentSize"].clone();
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
        });
        let capture = json!({ "captureBeyondViewport": true, "clip": clip });
        let taken = self.driver.cdp().send_raw("Page.captureScreenshot", capture).await;
        let data = taken.expect("a picture")["data"].as_str().unwrap_or_default().to_owned();
        let bytes = STANDARD.decode(data).expect("base64");
        let path = screenshots().join(format!("{name}.png"));
        std::fs::write(path, bytes).expect("the picture is kept");
    }

    /// The violations that axe-core calls serious or critical, each in a line.
    pub async fn violations(&self) -> Vec<String> {
        static AXE: LazyLock<String> = LazyLock::new(|| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vendor/axe.min.js");
            std::fs::read_to_string(path).expect("axe-core is vendored")
        });
        self.run(&AXE).await;
        let judge = "const done = arguments[arguments.length - 1]; \
             axe.run({ resultTypes: ['violations'] }).then((result) => done(result.violations \
               .filter(({ impact }) => impact === 'serious' || impact === 'critical') \
               .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`)), \
               (error) => done([String(error)]));";
        let found = self.run_async(judge, Vec::new()).await;
        serde_json::from_value(found).expect("a list")
    }

    /// Asserts that axe-core finds nothing serious in the page.
    pub async fn assert_accessible(&self) {
        assert_eq!(self.violations().await, Vec::<String>::new());
    }

    /// Asserts that the page is not wider than its window, and that axe-core finds nothing serious in it.
    pub async fn assert_suits_everyone(&self, what: &str) {
        assert!(self.fits().await, "{what} is wider than the window");
        assert_eq!(self.violations().await, Vec::<String>::new(), "{what}");
    }

    /// Whether the page is not wider than its window.
    pub async fn fits(&self) -> bool {
        self.run("return document.documentElement.scrollWidth <= window.innerWidth").await
            == json!(true)
    }

    /// Ends the browser. What a page wrote to its console as an error fails the test.
    pub async fn close(self) {
        self.close_but_for(&[]).await;
    }

    /// Like [`Page::close`], for a test that causes the `expected` errors on purpose.
    pub async fn close_but_for(self, expected: &[&str]) {
        let log = self.driver.browser_log().await.expect("the console's log");
        let errors: Vec<String> = log
            .into_iter()
            .filter(|entry| entry.level == "SEVERE")
            .map(|entry| entry.message)
            .filter(|message| !expected.iter().any(|part| message.contains(part)))
            .collect();
        self.driver.quit().await.expect("the browser ends");
        assert_eq!(errors, Vec::<String>::new(), "errors on the console");
    }

    async fn find(&self, css: &str) -> WebElement {
        self.driver.find(By::Css(css)).await.unwrap_or_else(|error| panic!("{css}: {error}"))
    }
}

/// A token, and what the pages' storage has of its session.
pub fn signed_in(instance: &Instance, user: i64, role: Role) -> Vec<Value> {
    let session = json!({
        "username": format!("user-{user}"),
        "user_id": user,
        "role": role.as_str(),
        "expires_at": "2100-01-01T00:00:00Z",
    });
    vec![json!(instance.token(user, role)), json!(session.to_string())]
}

/// The program of the browser without windows, which takes half of the processor time. The command in `/usr/bin` is a
/// shell script that starts it, and the driver ends only what it starts itself. Where this program is not installed, the
/// driver finds a whole browser.
const HEADLESS: &str = "/usr/lib/chromium/chromium-headless-shell";

fn capabilities(look: Look) -> Capabilities {
    let mut capabilities = DesiredCapabilities::chrome();
    if Path::new(HEADLESS).exists() {
        capabilities.set_binary(HEADLESS).expect("a path");
    }
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".to_owned(),
        // Containers give it 64 MB.
        "--disable-dev-shm-usage".to_owned(),
        // A window behind another one is still looked at.
        "--disable-backgrounding-occluded-windows".to_owned(),
        "--disable-renderer-backgrounding".to_owned(),
        "--hide-scrollbars".to_owned(),
        // Half of a browser's work would be pictures of motion. `looks` asks for it again.
        "--force-prefers-reduced-motion".to_owned(),
        "--force-color-profile=srgb".to_owned(),
        "--no-first-run".to_owned(),
        format!("--accept-lang={}", look.language),
        format!("--window-size={},{}", look.width, look.height),
    ];
    if let Some(name) = look.host {
        arguments.push(format!("--host-resolver-rules=MAP {name} 127.0.0.1"));
        // The address stays one without encryption.
        arguments.push("--disable-features=HttpsUpgrades,HttpsFirstBalancedMode".to_owned());
    }
    // The sandbox refuses to work for root, as in a container.
    if is_root() {
        arguments.push("--no-sandbox".to_owned());
    }
    for argument in arguments {
        capabilities.add_arg(&argument).expect("an argument");
    }
    if look.phone {
        let device = json!({
            "deviceMetrics": { "width": look.width, "height": look.height, "pixelRatio": 2.0 },
        });
        capabilities.add_experimental_option("mobileEmulation", device).expect("an option");
    }
    capabilities.set_browser_log_level(LoggingPrefsLogLevel::All).expect("a level");
    capabilities.into()
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    status.lines().find(|line| line.starts_with("Uid:")).and_then(of).as_deref() == Some("0")
}

/// Where pictures are kept, next to the test's program.
fn screenshots() -> PathBuf {
    let program = std::env::current_exe().expect("a test program");
    // target/<profile>/deps/<program>
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target"));
    let folder = target.join("screenshots");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
