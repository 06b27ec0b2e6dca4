//! Route tables: rows of method, path, permission and function, and the interfaces built from them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use model::{
    entity::Entity,
    error::{Error, Result},
    schema::Checker,
};
use percent_encoding::percent_decode_str;
use policy::change::Lifecycle;
use schemars::JsonSchema;
use serde_json::Value as Json;

use super::{
    crud,
    handler::Handler,
    openapi::{
        descriptions::LazyDocument,
        document,
        operation::{Operation, Schemas},
        prose,
    },
    permission::Security,
    row::{Row, Start},
};

/// The version of the OpenZiti API that clients expect.
pub(crate) const CONTRACT: &str = "0.26.20";

/// A route table under construction.
pub(crate) struct Routes {
    name: &'static str,
    base: &'static str,
    version: &'static str,
    rows: Vec<Row>,
    schemas: Schemas,
    fault: Option<Error>,
}

impl Routes {
    /// An empty table for a version of an interface at a base path.
    pub(crate) fn new(name: &'static str, base: &'static str, version: &'static str) -> Self {
        Self {
            name,
            base,
            version,
            rows: Vec::new(),
            schemas: Schemas::default(),
            fault: None,
        }
    }

    fn row<Args>(
        mut self,
        method: &'static str,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        let mut operation = Operation::default();
        if let Err(fault) = describe(&action, &mut operation, &mut self.schemas) {
            self.fault.get_or_insert(fault);
        }
        let path = path.into();
        let start: Start = Box::new(move |call, incoming| action.start(call, incoming));
        let summary = prose::summary(method, &path);
        let Security {
            permission,
            session_only,
        } = security.into();
        let (charset, has_no_time_limit, extension) = (false, false, false);
        self.rows.push(Row {
            method,
            path,
            permission,
            operation,
            summary,
            charset,
            session_only,
            has_no_time_limit,
            extension,
            start,
        });
        self
    }

    /// A row for GET.
    pub(crate) fn get<Args>(
        self,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        self.row("GET", path, security, action)
    }
    /// A row for POST.
    pub(crate) fn post<Args>(
        self,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        self.row("POST", path, security, action)
    }
    /// A row for PUT.
    pub(crate) fn put<Args>(
        self,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        self.row("PUT", path, security, action)
    }
    /// A row for PATCH.
    pub(crate) fn patch<Args>(
        self,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        self.row("PATCH", path, security, action)
    }
    /// A row for DELETE.
    pub(crate) fn delete<Args>(
        self,
        path: impl Into<String>,
        security: impl Into<Security>,
        action: impl Handler<Args>,
    ) -> Self {
        self.row("DELETE", path, security, action)
    }

    /// All six operations of a kind.
    pub(crate) fn crud<E: Lifecycle + JsonSchema>(self, security: impl Into<Security>) -> Self {
        let security = security.into();
        self.read::<E>(security)
            .create::<E>(security)
            .edit::<E>(security)
    }
    /// List and detail of a kind.
    pub(crate) fn read<E: Entity>(self, security: impl Into<Security>) -> Self {
        let security = security.into();
        self.list::<E>(security).detail::<E>(security)
    }
    /// List and detail of a kind with role attributes.
    pub(crate) fn read_by_roles<E: Entity>(self, security: impl Into<Security>) -> Self {
        let security = security.into();
        self.get(
            format!("/{}", E::KIND.path),
            security,
            crud::list_by_roles::<E>,
        )
        .detail::<E>(security)
    }
    /// The list of a kind.
    pub(crate) fn list<E: Entity>(self, security: impl Into<Security>) -> Self {
        self.get(format!("/{}", E::KIND.path), security, crud::list::<E>)
    }
    /// One record of a kind.
    pub(crate) fn detail<E: Entity>(self, security: impl Into<Security>) -> Self {
        self.get(
            format!("/{}/{{id}}", E::KIND.path),
            security,
            crud::detail::<E>,
        )
    }
    /// Creation of a record of a kind.
    pub(crate) fn create<E: Lifecycle + JsonSchema>(self, security: impl Into<Security>) -> Self {
        self.post(format!("/{}", E::KIND.path), security, crud::create::<E>)
    }
    /// Replacing, patching and deleting records of a kind.
    pub(crate) fn edit<E: Lifecycle + JsonSchema>(self, security: impl Into<Security>) -> Self {
        let (path, security) = (format!("/{}/{{id}}", E::KIND.path), security.into());
        self.put(path.clone(), security, crud::replace::<E>)
            .patch(path, security, crud::patch::<E>)
            .remove::<E>(security)
    }
    /// Deleting records of a kind.
    pub(crate) fn remove<E: Lifecycle>(self, security: impl Into<Security>) -> Self {
        self.delete(
            format!("/{}/{{id}}", E::KIND.path),
            security,
            crud::delete::<E>,
        )
        .refuses(&[409])
    }
    /// The records of kind `C` that refer to a record of kind `P`, or that the record of kind `P`
    /// refers to.
    pub(crate) fn linked<P: Entity, C: Entity>(self, security: impl Into<Security>) -> Self {
        self.get(
            format!("/{}/{{id}}/{}", P::KIND.path, C::KIND.path),
            security,
            crud::linked::<P, C>,
        )
    }
    /// The records of kind `C` that policies connect with a record of kind `P`.
    pub(crate) fn related<P: Entity, C: Entity>(self, security: impl Into<Security>) -> Self {
        self.get(
            format!("/{}/{{id}}/{}", P::KIND.path, C::KIND.path),
            security,
            crud::related::<P, C>,
        )
    }

    /// The rows so far.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Adds the rows that the given function adds to a table.
    pub(crate) fn mount(self, more: impl FnOnce(Self) -> Self) -> Self {
        more(self)
    }

    /// Sets the summary of the last row.
    pub(crate) fn summary(mut self, summary: &str) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.summary = summary.into();
        }
        self
    }

    /// Sets the name of the last row's body in the error for a missing body.
    pub(crate) fn body_name(mut self, name: &str) -> Self {
        if let Some(shape) = self
            .rows
            .last_mut()
            .and_then(|row| row.operation.body.as_mut())
        {
            shape.name = name.into();
        }
        self
    }

    /// Sets the schema of the last row's body, where the type of the argument does not determine
    /// it.
    pub(crate) fn body_schema(mut self, schema: &Json) -> Self {
        if let Some(shape) = self
            .rows
            .last_mut()
            .and_then(|row| row.operation.body.as_mut())
        {
            match Checker::own(schema) {
                Ok(checker) => {
                    (shape.schema, shape.checker) =
                        (Arc::new(schema.clone()), Some(Arc::new(checker)))
                }
                Err(fault) => drop(self.fault.get_or_insert(fault)),
            }
        }
        self
    }

    /// Sets the allowed words of a list in the last row's body.
    pub(crate) fn words_of(self, list: &str, words: &BTreeSet<String>) -> Self {
        let shape = self.rows.last().and_then(|row| row.operation.body.as_ref());
        let mut schema = shape
            .map(|shape| shape.schema.as_ref().clone())
            .unwrap_or_default();
        if let Some(items) = schema
            .pointer_mut(&format!("/properties/{list}/items"))
            .and_then(Json::as_object_mut)
        {
            items.insert("enum".into(), words.iter().cloned().collect());
        }
        self.body_schema(&schema)
    }

    /// Adds error statuses to the last row, besides those of its arguments.
    pub(crate) fn refuses(mut self, statuses: &[u16]) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.operation.errors.extend(statuses);
        }
        self
    }

    /// The JSON answers of the last row name their charset.
    pub(crate) fn with_charset(mut self) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.charset = true;
        }
        self
    }

    /// The last row has no time limit for its answer.
    pub(crate) fn without_time_limit(mut self) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.has_no_time_limit = true;
        }
        self
    }

    /// Marks the last row as an extension of the OpenZiti API.
    pub(crate) fn extension(mut self) -> Self {
        if let Some(row) = self.rows.last_mut() {
            row.extension = true;
        }
        self
    }

    /// Builds the interface with its OpenAPI document.
    ///
    /// # Errors
    /// A row is invalid, or two rows have the same path and method, which is a defect.
    pub(crate) fn finish(self) -> Result<Interface> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Self {
            name,
            base,
            version,
            rows,
            schemas,
            ..
        } = self;
        let rows: Vec<Arc<Row>> = rows.into_iter().map(Arc::new).collect();
        let (mut paths, mut at) = (
            Vec::<Vec<Arc<Row>>>::new(),
            BTreeMap::<String, usize>::new(),
        );
        for row in rows.iter().cloned() {
            let index = *at.entry(row.path.clone()).or_insert_with(|| {
                paths.push(Vec::new());
                paths.len() - 1
            });
            if let Some(rows) = paths.get_mut(index) {
                rows.push(row);
            }
        }
        let mut tree = matchit::Router::new();
        for (path, index) in at {
            tree.insert(path.as_str(), index)
                .map_err(|e| Error::Internal(format!("cannot add the route {path}: {e}")))?;
        }
        let document: Box<dyn FnOnce() -> Json + Send> =
            Box::new(move || document::assemble(name, base, version, &rows, schemas));
        Ok(Interface {
            name,
            base,
            document: Arc::new(LazyLock::new(document)),
            paths,
            tree,
        })
    }
}

fn describe<Args, A: Handler<Args>>(
    _: &A,
    operation: &mut Operation,
    schemas: &mut Schemas,
) -> Result<()> {
    A::describe(operation, schemas)
}

/// A finished route table.
pub struct Interface {
    pub name: &'static str,
    pub base: &'static str,
    /// The OpenAPI document.
    pub document: Arc<LazyDocument>,
    paths: Vec<Vec<Arc<Row>>>,
    tree: matchit::Router<usize>,
}

/// A path whose characters are percent-encoded only where they have to be (RFC 3986 section
/// 6.2.2.2): `%65` is `e`. A percent sign that encodes nothing becomes `%25`, so that it encodes
/// nothing afterwards either.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    let is_unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let (mut normal, mut rest) = (String::new(), path);
    while let Some((plain, encoded)) = rest.split_once('%') {
        normal.push_str(plain);
        let digits = encoded
            .get(..2)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = encoded
            .get(digits.map_or(0, str::len)..)
            .unwrap_or_default();
        match byte.filter(is_unreserved) {
            Some(byte) => normal.push(char::from(byte)),
            None => normal.extend(["%", digits.unwrap_or("25")]),
        }
    }
    Cow::Owned(normal + rest)
}

/// The result of a route lookup.
pub enum RouteMatch<'i> {
    Row(&'i Row, Vec<String>),
    OtherMethod,
    Nothing,
}

impl Interface {
    /// The row for a method and a path below the base, as [`normal_path`] has it.
    pub fn find(&self, method: &str, path: &str) -> RouteMatch<'_> {
        let Ok(matched) = self.tree.at(path) else {
            return RouteMatch::Nothing;
        };
        let Some(rows) = self.paths.get(*matched.value) else {
            return RouteMatch::Nothing;
        };
        match rows.iter().find(|row| row.method == method) {
            Some(row) => {
                let decoded =
                    |value: &str| percent_decode_str(value).decode_utf8_lossy().into_owned();
                RouteMatch::Row(
                    row,
                    matched
                        .params
                        .iter()
                        .map(|(_, value)| decoded(value))
                        .collect(),
                )
            }
            None => RouteMatch::OtherMethod,
        }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.paths.iter().flatten().map(Arc::as_ref)
    }
}
