//! The functions of a route table: async functions that take a call and up to four other arguments.

use std::{future::Future, pin::Pin};

use model::error::Result;

use super::{
    answer::{Answer, Reply},
    body::Incoming,
    call::Call,
    extractor::Extractor,
    openapi::operation::{Operation, Schemas},
};

/// A pending answer. Not `Send`: a request stays on the thread that read it.
pub(crate) type PendingAnswer = Pin<Box<dyn Future<Output = Result<Reply>>>>;

/// A function of a route table. `Args` only lets functions with different numbers of arguments
/// implement the trait.
pub(crate) trait Handler<Args>: Clone + Send + Sync + 'static {
    /// Describes the operation by its argument and answer types.
    ///
    /// # Errors
    /// A schema of this API is invalid, which is a defect.
    fn describe(operation: &mut Operation, schemas: &mut Schemas) -> Result<()>;

    /// Takes the arguments from a request. The function runs only when the returned future is
    /// awaited. The dispatcher checks the permission before that.
    ///
    /// # Errors
    /// The request does not match the arguments.
    fn start(&self, call: Call, incoming: &mut Incoming<'_>) -> Result<PendingAnswer>;
}

macro_rules! action {
    ($($argument:ident),*) => {
        impl<F, Fut, R, $($argument),*> Handler<($($argument,)*)> for F
        where
            F: Fn(Call, $($argument),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Result<R>> + 'static,
            R: Answer,
            $($argument: Extractor),*
        {
            fn describe(operation: &mut Operation, schemas: &mut Schemas) -> Result<()> {
                $($argument::describe(operation)?;)*
                R::describe(operation, schemas);
                Ok(())
            }
            #[allow(non_snake_case, unused_variables)]
            fn start(&self, call: Call, incoming: &mut Incoming<'_>) -> Result<PendingAnswer> {
                $(let $argument = $argument::take(incoming)?;)*
                let function = self.clone();
                Ok(Box::pin(async move { function(call, $($argument),*).await?.reply() }))
            }
        }
    };
}
action!();
action!(A);
action!(A, B);
action!(A, B, C);
action!(A, B, C, D);
