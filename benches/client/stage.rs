//! A controller, and the machines of a host and of a user, made with the commands that people use.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use super::process;

/// The binary.
const PROGRAM: &str = env!("CARGO_BIN_EXE_overkeep");
const PATIENCE: Duration = Duration::from_secs(60);
/// How far away the controller is, each way.
pub const DELAY: Duration = Duration::from_millis(10);

/// A child that is killed at the end.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Stage {
    place: PathBuf,
    _controller: Running,
    pub host: Running,
    pub forward: Running,
    /// The port that leads to the service.
    pub port: SocketAddr,
    /// The server itself.
    pub server: SocketAddr,
}

impl Stage {
    /// Everything is near.
    pub fn new(directory: &Path) -> Self {
        let (child, _) = process::start(&directory.join("overkeep.redb"), &[]);
        Self::on(directory, child)
    }

    /// The controller and its router are [`DELAY`] away, each way.
    pub fn far(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let advertised = listener.local_addr().unwrap().to_string();
        let variables = [("OVERKEEP_ADVERTISE", advertised.as_str())];
        let (child, at) = process::start(&directory.join("overkeep.redb"), &variables);
        thread::spawn(move || delay(&listener, at));
        Self::on(directory, child)
    }

    /// The server sends back what it receives.
    fn on(directory: &Path, child: Child) -> Self {
        let server = echo();
        let controller = Running(child);
        let stage = |arguments: &[&str]| ran(directory, arguments, "");
        for name in ["alice", "server"] {
            let token = stage(&["create", "identity", name, "--enroll", "ott"]);
            let file = format!("{name}.json");
            ran(directory, &["enroll", "-", "-o", &file], &token);
        }
        let target = server.to_string();
        stage(&[
            "publish", "web", "--host", "server", "--target", &target, "--to", "alice",
        ]);
        let host = Running(spawn(directory, &["host", "-i", "server.json"]));
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let listen = free.to_string();
        let forward = ["forward", "-i", "alice.json", "web", &listen];
        let forward = Running(spawn(directory, &forward));
        let stage = Self {
            place: directory.to_owned(),
            _controller: controller,
            host,
            forward,
            port: free,
            server,
        };
        let begin = Instant::now();
        while stage.echoed().is_err() {
            assert!(begin.elapsed() < PATIENCE, "nothing comes back");
            thread::sleep(Duration::from_millis(50));
        }
        stage
    }

    fn echoed(&self) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(self.port)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(b"x")?;
        socket.read_exact(&mut [0])
    }

    /// How long it takes from the start of `overkeep forward web -` until a byte has come back,
    /// by the identity of the user.
    pub fn first_byte(&self) -> Duration {
        let begin = Instant::now();
        let mut child = Command::new(PROGRAM)
            .args(["forward", "-i", "alice.json", "web", "-"])
            .current_dir(&self.place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let mut byte = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut byte)
            .unwrap();
        let took = begin.elapsed();
        drop(Running(child));
        took
    }
}

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(directory);
    command
}

fn spawn(directory: &Path, arguments: &[&str]) -> Child {
    command(directory, arguments)
        .args(["--log-level", "error"])
        .spawn()
        .unwrap()
}

/// What a command prints.
fn ran(directory: &Path, arguments: &[&str], input: &str) -> String {
    let mut child = command(directory, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{arguments:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// A server that sends back what it receives. A connection that begins with `d` gets so many bytes
/// as the rest of the line says, and one that begins with `u` gets a byte after so many.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || drop(serve(socket)));
        }
    });
    address
}

fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    socket.read_exact(&mut first)?;
    let length = |socket: &TcpStream| {
        let mut line = String::new();
        // A byte at a time: nothing behind the line is read.
        let mut reader = BufReader::with_capacity(1, socket);
        reader.read_line(&mut line)?;
        line.trim().parse::<usize>().map_err(std::io::Error::other)
    };
    match first[0] {
        b'd' => {
            let length = length(&socket)?;
            send(&mut socket, length)
        }
        b'u' => {
            let length = length(&socket)?;
            receive(&mut socket, length)?;
            socket.write_all(b"u")
        }
        _ => {
            socket.write_all(&first)?;
            let mut buffer = [0; 1024];
            loop {
                match socket.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => socket.write_all(&buffer[..count])?,
                }
            }
        }
    }
}

/// Adds a delay to each direction of the connections to a target.
fn delay(listener: &TcpListener, target: SocketAddr) {
    for near in listener.incoming().flatten() {
        let far = TcpStream::connect(target).unwrap();
        for socket in [&near, &far] {
            socket.set_nodelay(true).unwrap();
        }
        let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || delayed(near, forth));
        thread::spawn(move || delayed(far, back));
    }
}

fn delayed(mut from: TcpStream, mut to: TcpStream) {
    let (sender, queue) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, bytes) in queue {
            thread::sleep((at + DELAY).saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        drop(to.shutdown(Shutdown::Write));
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if sender
            .send((Instant::now(), buffer[..count].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

pub fn send(socket: &mut TcpStream, length: usize) -> std::io::Result<()> {
    let buffer = vec![7; 64 << 10];
    let mut left = length;
    while left > 0 {
        let count = left.min(buffer.len());
        socket.write_all(&buffer[..count])?;
        left -= count;
    }
    Ok(())
}

pub fn receive(socket: &mut TcpStream, length: usize) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut left = length;
    while left > 0 {
        let count = left.min(buffer.len());
        let count = socket.read(&mut buffer[..count])?;
        assert!(count > 0, "{left} bytes are missing");
        left -= count;
    }
    Ok(())
}
