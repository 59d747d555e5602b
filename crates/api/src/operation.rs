//! Operations: each one is declared once, with everything that is known of it.
//!
//! A declaration names the operation, its method and path, and its handler. What the operation takes and gives is read
//! from the handler's own types, so the two cannot disagree; besides that, it says only what no type can say: which
//! errors of the engine come through, and what a caller must be allowed to do. The [router](crate::routes::all) and the
//! [document](crate::document) are both made from the list of all declarations.

use axum::Router;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::answer::Result;
use crate::describe::{Describe, Description};
use crate::error::{ErrorKind, UnformattedError};
use crate::{App, decider};

/// The method of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    Get,
    Post,
    Patch,
    Delete,
}

impl HttpMethod {
    /// Its name in the document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What a caller must be allowed to do. The server's one token allows all of it, except that programs of agents change and
/// decide nothing ([`decider`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerRight {
    /// To read.
    Read,
    /// To change something. Whatever is not only read needs it, because most of it can loosen what an agent may do: rules,
    /// a looser agent, a prompt, an MCP server.
    Change,
    /// To decide for the person: to grant what an agent asks for, or to answer its questions.
    Decide,
}

impl CallerRight {
    /// Its name in the document.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change => "change",
            Self::Decide => "decide",
        }
    }
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Its name, as OpenCode's clients know it.
    pub(crate) id: &'static str,
    /// Its method.
    pub(crate) method: HttpMethod,
    /// Its path, with `{name}` for each parameter.
    pub(crate) path: &'static str,
    /// What its caller must be allowed to do.
    pub(crate) right: CallerRight,
    /// What it would do in OpenCode, if this release does not do it.
    pub(crate) unsupported: Option<&'static str>,
    errors: Vec<ErrorKind>,
    describe: fn(&mut Description<'_>),
    route: MethodRouter<App>,
}

impl Operation {
    /// Something that is read.
    pub(crate) fn get<T: 'static>(
        id: &'static str,
        path: &'static str,
        handler: impl DescribedHandler<T>,
    ) -> Self {
        Self::on(HttpMethod::Get, id, path, handler)
    }

    /// Something that is done.
    pub(crate) fn post<T: 'static>(
        id: &'static str,
        path: &'static str,
        handler: impl DescribedHandler<T>,
    ) -> Self {
        Self::on(HttpMethod::Post, id, path, handler)
    }

    /// Something that is changed.
    pub(crate) fn patch<T: 'static>(
        id: &'static str,
        path: &'static str,
        handler: impl DescribedHandler<T>,
    ) -> Self {
        Self::on(HttpMethod::Patch, id, path, handler)
    }

    /// Something that is taken away.
    pub(crate) fn delete<T: 'static>(
        id: &'static str,
        path: &'static str,
        handler: impl DescribedHandler<T>,
    ) -> Self {
        Self::on(HttpMethod::Delete, id, path, handler)
    }

    /// An operation of any method.
    pub(crate) fn on<T: 'static, H: DescribedHandler<T>>(
        method: HttpMethod,
        id: &'static str,
        path: &'static str,
        handler: H,
    ) -> Self {
        let right = if method == HttpMethod::Get { CallerRight::Read } else { CallerRight::Change };
        let route = on(method.filter(), handler);
        Self { id, method, path, right, unsupported: None, errors: Vec::new(), describe: H::describe, route }
    }

    /// The same, failing in these ways too. How its inputs can be refused is known from their types.
    pub(crate) fn fails_with(mut self, errors: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.errors.extend(errors);
        self
    }

    /// The same, for callers who may decide for the person.
    pub(crate) fn needs_decision_right(self) -> Self {
        Self { right: CallerRight::Decide, ..self }
    }

    /// The same, for an operation that is known and not supported.
    pub(crate) fn unsupported(self, what: &'static str) -> Self {
        Self { unsupported: Some(what), ..self.fails_with([ErrorKind::Unsupported]) }
    }

    /// Everything that its types and its declaration say of it.
    pub(crate) fn describe(&self, description: &mut Description<'_>) {
        description.errors.extend([ErrorKind::Unauthorized, ErrorKind::Forbidden, ErrorKind::Internal]);
        description.errors.extend(&self.errors);
        (self.describe)(description);
    }

    /// Adds it to a router.
    pub(crate) fn mount(self, router: Router<App>) -> Router<App> {
        let (id, errors) = (self.id, self.declared());
        let check = move |response: Response| {
            let undeclared = UnformattedError::of(&response).filter(|kind| !errors.contains(kind));
            if let Some(kind) = undeclared {
                tracing::error!(
                    operation = id,
                    ?kind,
                    "an operation fails in a way that it does not declare"
                );
            }
            debug_assert!(
                undeclared.is_none(),
                "{id} fails in a way that it does not declare: {undeclared:?}"
            );
            std::future::ready(response)
        };
        let route = match self.right {
            CallerRight::Decide => self.route.layer(axum::middleware::from_fn(decider::check_decision)),
            CallerRight::Change => self.route.layer(axum::middleware::from_fn(decider::check_change)),
            CallerRight::Read => self.route,
        };
        router.route(self.path, route.layer(axum::middleware::map_response(check)))
    }

    fn declared(&self) -> Vec<ErrorKind> {
        let mut description = Description::without_shapes();
        self.describe(&mut description);
        description.errors.into_iter().collect()
    }
}

/// A handler whose types say what it takes and gives.
pub(crate) trait DescribedHandler<T>: Handler<T, App> {
    /// Tells what the types say.
    fn describe(description: &mut Description<'_>);
}

macro_rules! handled {
    ($($input:ident)*) => {
        impl<F, Given, A, M, $($input,)*> DescribedHandler<(M, $($input,)*)> for F
        where
            F: Handler<(M, $($input,)*), App> + Fn($($input,)*) -> Given,
            Given: Future<Output = Result<A>>,
            A: Describe,
            $($input: Describe,)*
        {
            fn describe(description: &mut Description<'_>) {
                $($input::describe(description);)*
                A::describe(description);
            }
        }
    };
}

handled!();
handled!(A1);
handled!(A1 A2);
handled!(A1 A2 A3);
handled!(A1 A2 A3 A4);
