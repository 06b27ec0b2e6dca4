// Asks before a form with unsaved changes is left, or a secret that was not stored.

import { useEffect } from './vendor/htm-preact.js';

let question = ''; // what the person is asked; empty if nothing is lost

export const hasUnsaved = () => Boolean(question);

/** Everything is saved, or may be lost. */
export const forgetUnsaved = () => { question = ''; };

/** Whether the page may be left: nothing is lost, or the person agrees. */
export const mayLeave = () => !question || confirm(question);

/** Says what the person is asked before a component is left. With an empty text nothing is asked. */
export function useUnsaved(asked) {
  useEffect(() => {
    question = asked;
    const closing = event => question && event.preventDefault();
    addEventListener('beforeunload', closing);
    return () => {
      question = '';
      removeEventListener('beforeunload', closing);
    };
  }, [asked]);
}
