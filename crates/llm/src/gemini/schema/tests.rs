//! What becomes of each keyword, and that nothing else can come out.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a test reads best with its values in place")]
fn check(schema: Value, expected: Value) {
    let cleaned = clean(&schema);
    assert_eq!(cleaned, expected, "{schema}");
    assert_allowed(&cleaned);
    assert_eq!(clean(&cleaned), expected, "cleaning again changes nothing");
}

/// The API's own rules, as a schema of schemas would have them.
#[track_caller]
fn assert_allowed(schema: &Value) {
    let fields = schema.as_object().unwrap();
    if let Some(alternatives) = fields.get("anyOf") {
        assert_eq!(fields.len(), 1, "a choice stands alone: {schema}");
        let alternatives = alternatives.as_array().unwrap();
        assert!(alternatives.len() > 1, "{schema}");
        alternatives.iter().for_each(assert_allowed);
        return;
    }
    let common = ["type", "title", "description", "nullable"];
    let own: &[&str] = match fields["type"].as_str().unwrap() {
        "object" => &["properties", "required", "propertyOrdering", "minProperties", "maxProperties"],
        "array" => &["items", "minItems", "maxItems"],
        "string" => &["enum", "format", "minLength", "maxLength", "pattern"],
        "number" | "integer" => &["minimum", "maximum", "format"],
        "boolean" => &[],
        other => panic!("type {other}"),
    };
    for (name, value) in fields {
        assert!(common.contains(&name.as_str()) || own.contains(&name.as_str()), "{name} in {schema}");
        match name.as_str() {
            "title" | "description" | "pattern" | "type" => assert!(value.is_string(), "{schema}"),
            "nullable" => assert_eq!(value, &json!(true)),
            "enum" => {
                let words = value.as_array().unwrap();
                assert!(
                    !words.is_empty()
                        && words.iter().all(|word| word.as_str().is_some_and(|w| !w.is_empty()))
                );
            }
            "format" => {
                assert!(
                    ["date-time", "float", "double", "int32", "int64"].contains(&value.as_str().unwrap())
                );
            }
            "items" => assert_allowed(value),
            "properties" => {
                assert!(!value.as_object().unwrap().is_empty(), "{schema}");
                value.as_object().unwrap().values().for_each(assert_allowed);
            }
            "required" | "propertyOrdering" => {
                let names = value.as_array().unwrap();
                let known = |name: &Value| fields["properties"].get(name.as_str().unwrap()).is_some();
                assert!(!names.is_empty() && names.iter().all(known), "{schema}");
            }
            _ => assert!(value.is_number(), "{schema}"),
        }
    }
    assert_eq!(fields["type"] == "array", fields.contains_key("items"));
}

#[test]
fn keywords() {
    let string = || json!({"type": "string"});
    let table = [
        // Nothing to say, or nothing that can be said.
        (json!({}), string()),
        (json!(true), string()),
        (json!({"$schema": "x", "$id": "y", "$comment": "z", "default": 1, "examples": [1]}), string()),
        (json!({"type": "uuid"}), string()),
        (json!({"type": "STRING"}), string()),
        (json!({"not": {"type": "string"}}), string()),
        // What every schema keeps.
        (
            json!({"type": "boolean", "title": "T", "description": "D", "readOnly": true}),
            json!({"type": "boolean", "title": "T", "description": "D"}),
        ),
        // Types.
        (json!({"type": ["integer", "null"]}), json!({"type": "integer", "nullable": true})),
        (json!({"type": "null"}), json!({"type": "string", "nullable": true})),
        (json!({"type": ["integer", "number"]}), json!({"type": "number"})),
        (
            json!({"type": ["string", "integer", "null"], "description": "D", "minimum": 1}),
            json!({"anyOf": [
                {"type": "string", "description": "D", "nullable": true},
                {"type": "integer", "minimum": 1, "description": "D", "nullable": true},
            ]}),
        ),
        (json!({"minLength": 1}), json!({"type": "string", "minLength": 1})),
        (json!({"minimum": 1}), json!({"type": "number", "minimum": 1})),
        // Limits and formats.
        (
            json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "multipleOf": 2, "format": "int32"}),
            json!({"type": "integer", "maximum": 9, "format": "int32"}),
        ),
        (
            json!({"type": "string", "format": "uri", "pattern": "^a"}),
            json!({"type": "string", "pattern": "^a"}),
        ),
        (json!({"type": "string", "format": "date-time"}), json!({"type": "string", "format": "date-time"})),
        (json!({"type": "number", "format": "int32"}), json!({"type": "number"})),
        (json!({"type": "string", "minLength": -1, "minimum": 3}), string()),
        // Allowed values.
        (json!({"const": "a"}), json!({"type": "string", "enum": ["a"]})),
        (json!({"enum": ["a", "b", "a", ""]}), json!({"type": "string", "enum": ["a", "b"]})),
        (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "string", "enum": ["1", "2"]})),
        (
            json!({"type": ["string", "null"], "enum": ["a", null]}),
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
        ),
        (json!({"const": true}), json!({"type": "boolean"})),
        (json!({"enum": [{"a": 1}], "type": "object"}), json!({"type": "object"})),
        (json!({"enum": []}), string()),
        // Choices.
        (
            json!({"anyOf": [{"const": "a"}, {"const": "b"}], "description": "D"}),
            json!({"type": "string", "description": "D", "enum": ["a", "b"]}),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "array"}], "description": "D"}),
            json!({"anyOf": [
                {"type": "string", "description": "D"},
                {"type": "array", "items": {"type": "string"}, "description": "D"},
            ]}),
        ),
        (
            json!({"anyOf": [{"type": "string", "description": "own"}, {"type": "null"}], "description": "D"}),
            json!({"type": "string", "description": "D", "nullable": true}),
        ),
        (
            json!({"anyOf": [{"anyOf": [{"type": "string"}, {"type": "boolean"}]}, {"type": "string"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "oneOf": [
                {"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}]}),
            json!({"anyOf": [
                {"type": "object", "properties": {"kind": {"type": "string", "enum": ["a"]}}},
                {"type": "object", "properties": {"kind": {"type": "string", "enum": ["b"]}}},
            ]}),
        ),
        // All at once.
        (
            json!({"allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}),
            json!({"type": "object", "required": ["a", "b"],
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
        ),
        // Arrays.
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        ),
        (
            json!({"prefixItems": [{"type": "integer"}, {"type": "boolean"}, {"type": "integer"}], "items": false}),
            json!({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}}),
        ),
        // Objects.
        (json!({"type": "object", "properties": {}, "required": ["a"]}), json!({"type": "object"})),
        (json!({"additionalProperties": {"type": "string"}}), json!({"type": "object"})),
        (
            json!({"properties": {"a": true, "b": false}, "required": ["a", "a", "b", "c", 1],
                "propertyOrdering": ["b", "a"], "additionalProperties": false}),
            json!({"type": "object", "propertyOrdering": ["a"], "required": ["a"],
                "properties": {"a": {"type": "string"}}}),
        ),
        // A property that is named as a keyword is none.
        (
            json!({"properties": {"$ref": {"type": "string"}, "default": {"type": "integer"}}}),
            json!({"type": "object",
                "properties": {"$ref": {"type": "string"}, "default": {"type": "integer"}}}),
        ),
    ];
    for (schema, expected) in table {
        check(schema, expected);
    }
}

#[test]
fn references() {
    check(
        json!({"type": "object", "properties": {
                "at": {"$ref": "#/$defs/point", "description": "where"},
                "to": {"$ref": "#/definitions/way~1out"},
                "odd": {"$ref": "#/nowhere", "type": "integer"},
                "far": {"$ref": "https://example.com/schema"}},
            "$defs": {"point": {"type": "array", "items": {"$ref": "#/$defs/number"}, "description": "point"},
                "number": {"type": "number"}},
            "definitions": {"way/out": {"enum": ["in", "out"]}}}),
        json!({"type": "object", "properties": {
            "at": {"type": "array", "description": "where", "items": {"type": "number"}},
            "to": {"type": "string", "enum": ["in", "out"]},
            "odd": {"type": "integer"},
            "far": {"type": "string"}}}),
    );
}

#[test]
fn circles_are_cut() {
    let node = json!({"type": "object", "description": "node", "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}});
    check(
        json!({"$ref": "#/$defs/node", "$defs": {"node": node}}),
        json!({"type": "object", "description": "node", "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"type": "object", "description": "node"}}}}),
    );
    check(json!({"$ref": "#"}), json!({"type": "string"}));
    check(json!({"allOf": [{"$ref": "#"}, {"type": "integer"}]}), json!({"type": "integer"}));
}

#[test]
fn references_that_multiply_are_limited() {
    let mut defs = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        defs.insert(
            format!("l{level}"),
            json!({"properties": {"a": next, "b": next, "c": {"anyOf": [next, next]}}}),
        );
    }
    let cleaned = clean(&json!({"$ref": "#/$defs/l0", "$defs": defs}));
    assert_allowed(&cleaned);
    assert!(cleaned.to_string().len() < 1_000_000);
}

#[test]
fn parameters_of_tools() {
    let check =
        |schema: Value, expected: Option<Value>| assert_eq!(parameters(&schema), expected, "{schema}");
    let a = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    check(a.clone(), Some(a));
    check(json!({"type": "object", "properties": {}}), None);
    check(json!({"type": "object"}), None);
    check(json!({}), None);
    check(json!({"type": "string"}), None);
    check(json!(null), None);
    check(
        json!({"anyOf": [
            {"type": "object", "properties": {"a": {}, "k": {"const": "1"}}, "required": ["a", "k"]},
            {"type": "object", "properties": {"b": {}, "k": {"const": "2"}}, "required": ["k"]}]}),
        Some(json!({"type": "object", "required": ["k"], "properties": {
            "a": {"type": "string"}, "k": {"type": "string", "enum": ["1"]}, "b": {"type": "string"}}})),
    );
}

/// Anything at all that stands under the keywords of a schema, well-formed or not.
fn schemas() -> impl Strategy<Value = Value> {
    let word = || select(vec!["object", "array", "string", "integer", "null", "date-time", "a", ""]);
    let pointer = select(vec!["#", "#/$defs/x", "#/$defs/y", "#/properties/a", "#/anyOf/0", "x"]);
    let leaf = prop_oneof![
        word().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
        vec(word(), 0..3).prop_map(Value::from),
        pointer.prop_map(|to| json!({"$ref": to})),
    ];
    leaf.prop_recursive(6, 64, 5, |inner| {
        let keyword = select(vec![
            "type",
            "enum",
            "const",
            "nullable",
            "items",
            "prefixItems",
            "properties",
            "required",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "$defs",
            "format",
            "minimum",
            "minLength",
            "minItems",
            "pattern",
            "description",
            "additionalProperties",
            "default",
            "propertyOrdering",
            "minProperties",
        ]);
        let name = select(vec!["x", "y", "a", "type"]);
        let object = |names: BoxedStrategy<&'static str>, inner: BoxedStrategy<Value>| {
            vec((names, inner), 0..5)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
                .prop_map(Value::Object)
        };
        prop_oneof![
            3 => object(keyword.boxed(), inner.clone().boxed()),
            1 => object(name.boxed(), inner.clone().boxed()),
            1 => vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn only_what_is_allowed_comes_out(schema in schemas()) {
        assert_allowed(&clean(&schema));
        if let Some(parameters) = parameters(&schema) {
            assert_allowed(&parameters);
            assert_eq!(&parameters["type"], "object");
        }
    }
}
