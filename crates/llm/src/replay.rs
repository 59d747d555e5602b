//! Decodes an answer from its bytes alone, for recorded answers and for benchmarks.

use crate::body::{AnswerBody, BodyError};
use crate::protocol::{Decode, WireProtocol as _};
use crate::{Error, HttpFailure, Protocol, StreamEvent};
use crate::{anthropic, error, gemini, openai_chat, openai_responses};

/// The events of an answer whose body arrived in these pieces, as a model call would hand them out.
///
/// `None` when the protocol is not spoken here.
pub fn replay<'p>(
    protocol: Protocol,
    pieces: impl IntoIterator<Item = &'p [u8], IntoIter: 'p>,
) -> Option<Box<dyn Iterator<Item = Result<StreamEvent, Error>> + 'p>> {
    let pieces = pieces.into_iter();
    Some(match protocol {
        Protocol::Anthropic => events(anthropic::Messages.decoder(), pieces),
        Protocol::OpenAiResponses => events(openai_responses::Responses.decoder(), pieces),
        Protocol::OpenAiChat => {
            let dialect = openai_chat::ChatDialect::Compatible;
            events(openai_chat::Chat { dialect }.decoder(), pieces)
        }
        Protocol::Gemini => events(gemini::GenerateContent.decoder(), pieces),
        Protocol::Bedrock
        | Protocol::BedrockMantle
        | Protocol::Vertex
        | Protocol::VertexAnthropic
        | Protocol::Azure
        | Protocol::Cohere
        | Protocol::Unknown => return None,
    })
}

fn events<'p>(
    decoder: impl Decode + 'p,
    mut pieces: impl Iterator<Item = &'p [u8]> + 'p,
) -> Box<dyn Iterator<Item = Result<StreamEvent, Error>> + 'p> {
    let mut body = Some(AnswerBody::new("", decoder));
    let mut begun = false;
    Box::new(std::iter::from_fn(move || {
        if !std::mem::replace(&mut begun, true) {
            return Some(Ok(StreamEvent::Start));
        }
        let step = advance(body.as_mut()?, &mut pieces);
        match step {
            Ok(Some(event)) => Some(Ok(event)),
            Ok(None) => {
                body = None;
                Some(Ok(StreamEvent::Finish))
            }
            Err(broken) => {
                body = None;
                Some(Err(failed(broken)))
            }
        }
    }))
}

/// The next event; `None` when the answer is over.
fn advance<'p>(
    body: &mut AnswerBody<impl Decode>,
    pieces: &mut impl Iterator<Item = &'p [u8]>,
) -> Result<Option<StreamEvent>, BodyError> {
    loop {
        if let Some(event) = body.next()? {
            return Ok(Some(event));
        }
        if body.is_over() {
            return Ok(None);
        }
        match pieces.next() {
            Some(piece) => body.push(piece)?,
            None => body.end()?,
        }
    }
}

fn failed(broken: BodyError) -> Error {
    let http = |body: String| HttpFailure { status: 200, body, ..HttpFailure::default() };
    match broken {
        BodyError::Provider(object) => error::classify_in_stream(http(object)),
        BodyError::Malformed { reason, text } => Error::Malformed { reason, http: Box::new(http(text)) },
        BodyError::Incomplete { reason } => Error::Incomplete { reason },
    }
}
