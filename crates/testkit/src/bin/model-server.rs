//! The scripted model as a program: `model-server [port] [greeting]`, port 4999 unless given.

use std::net::SocketAddr;
use std::process::ExitCode;

use everturn_testkit::ModelServer;
use everturn_testkit::model_server::RECORDED_GREETING;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is how a program says where it listens")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Ok(port) = arguments.next().map_or(Ok(4999), |text| text.parse::<u16>()) else {
        eprintln!("usage: model-server [port] [greeting]");
        return ExitCode::FAILURE;
    };
    let greeting = arguments.next().unwrap_or_else(|| RECORDED_GREETING.to_owned());
    let server = ModelServer::bind(SocketAddr::from(([127, 0, 0, 1], port)), &greeting);
    println!("model server listening on {}", server.base_url());
    server.join();
    ExitCode::SUCCESS
}
