//! What is known of one operation, gathered from the types that its handler takes and gives.

use std::collections::BTreeSet;

use axum::extract::State;
use everturn_model::Map;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::App;
use crate::error::ErrorKind;

/// A type that a handler takes or gives, and that knows what it means in a document.
pub(crate) trait Describe {
    /// Tells what it means.
    fn describe(description: &mut Description<'_>);
}

impl Describe for State<App> {
    fn describe(_: &mut Description<'_>) {}
}

/// An operation that never succeeds gives nothing.
impl Describe for std::convert::Infallible {
    fn describe(_: &mut Description<'_>) {}
}

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// Among the headers.
    Header,
}

impl ParameterPlace {
    fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// What is known of an operation so far.
#[derive(Debug)]
pub(crate) struct Description<'a> {
    generator: Option<&'a mut SchemaGenerator>,
    /// Its parameters, as the document has them.
    pub(crate) parameters: Vec<Value>,
    /// Its body, as the document has it.
    pub(crate) body: Option<Value>,
    /// The answer of a success: its status and what the document says of it.
    pub(crate) answer: Option<(u16, Value)>,
    /// The ways in which it fails.
    pub(crate) errors: BTreeSet<ErrorKind>,
}

impl<'a> Description<'a> {
    /// Nothing is known yet. Shapes with a name are gathered in the generator.
    pub(crate) fn new(generator: &'a mut SchemaGenerator) -> Self {
        Self { generator: Some(generator), ..Self::without_shapes() }
    }

    /// The same, leaving all shapes out: making them would slow down the start.
    pub(crate) fn without_shapes() -> Self {
        Self { generator: None, parameters: Vec::new(), body: None, answer: None, errors: BTreeSet::new() }
    }

    /// The schema of a type, or a reference to it.
    fn schema<T: JsonSchema>(&mut self) -> Schema {
        self.generator.as_mut().map(|generator| generator.subschema_for::<T>()).unwrap_or_default()
    }

    /// Each field of a type is a parameter.
    pub(crate) fn parameters<T: JsonSchema>(&mut self, place: ParameterPlace) {
        let Some(generator) = self.generator.as_mut() else { return };
        let mut schema = T::json_schema(generator);
        let required: Vec<Value> =
            schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let fields = schema.remove("properties").and_then(|fields| match fields {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        for (name, schema) in fields.unwrap_or_default() {
            let needed = place == ParameterPlace::Path || required.contains(&Value::from(name.as_str()));
            self.parameter(place, &name, needed, &schema);
        }
    }

    /// A parameter.
    pub(crate) fn parameter(&mut self, place: ParameterPlace, name: &str, required: bool, schema: &Value) {
        let place = place.as_str();
        self.parameters.push(json!({"name": name, "in": place, "required": required, "schema": schema}));
    }

    /// A JSON body.
    pub(crate) fn body<T: JsonSchema>(&mut self, required: bool) {
        let content = content("application/json", self.schema::<T>().as_value());
        self.body = Some(json!({"required": required, "content": content}));
    }

    /// A success without a body.
    pub(crate) fn gives_nothing(&mut self, status: u16, says: &str) {
        self.answer = Some((status, json!({"description": says})));
    }

    /// A success with a body.
    pub(crate) fn gives<T: JsonSchema>(&mut self, media: &str, says: &str) {
        let content = content(media, self.schema::<T>().as_value());
        self.answer = Some((200, json!({"description": says, "content": content})));
    }

    /// A header that a success may have.
    pub(crate) fn gives_header(&mut self, name: &str, says: &str) {
        let Some((_, Value::Object(answer))) = &mut self.answer else { return };
        let header = json!({"description": says, "schema": {"type": "string"}});
        if let Value::Object(headers) = answer.entry("headers").or_insert_with(|| Map::new().into()) {
            headers.insert(name.to_owned(), header);
        }
    }
}

fn content(media: &str, schema: &Value) -> Map {
    Map::from_iter([(media.to_owned(), json!({"schema": schema}))])
}
